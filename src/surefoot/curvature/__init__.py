"""Curvature of the training loss in the weights."""

from surefoot.curvature.batch_sharpness import BatchSharpness, batch_sharpness, step_sharpness
from surefoot.curvature.density import Density, spectral_density
from surefoot.curvature.eigen import Eigenpair, top_eigenpair, warm_start
from surefoot.curvature.ggn import GGN
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.matrix import CurvatureMatrix, subset
from surefoot.curvature.scaled import adaptive_sharpness, effective_sharpness
from surefoot.curvature.sharpness import sharpness
from surefoot.curvature.trace import Trace, trace

__all__ = [
    "GGN",
    "BatchSharpness",
    "CurvatureMatrix",
    "Density",
    "Eigenpair",
    "Hessian",
    "Trace",
    "adaptive_sharpness",
    "batch_sharpness",
    "effective_sharpness",
    "sharpness",
    "spectral_density",
    "step_sharpness",
    "subset",
    "top_eigenpair",
    "trace",
    "warm_start",
]
