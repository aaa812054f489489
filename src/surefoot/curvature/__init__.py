"""Curvature of the training loss in the weights."""

from surefoot.curvature._batch_sharpness import BatchSharpness, batch_sharpness, step_sharpness
from surefoot.curvature._sharpness import sharpness, sharpness_by_layer
from surefoot.curvature._trace import Trace, trace
from surefoot.curvature.density import Density, spectral_density
from surefoot.curvature.eigen import eigenpairs, random_source
from surefoot.curvature.eigenpair import Eigenpair
from surefoot.curvature.ggn import GGN
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.matrix import CurvatureMatrix, subset
from surefoot.curvature.scaled import adaptive_sharpness, effective_sharpness
from surefoot.curvature.tracker import SharpnessTracker, Tracked

__all__ = [
    "GGN",
    "BatchSharpness",
    "CurvatureMatrix",
    "Density",
    "Eigenpair",
    "Hessian",
    "SharpnessTracker",
    "Trace",
    "Tracked",
    "adaptive_sharpness",
    "batch_sharpness",
    "effective_sharpness",
    "eigenpairs",
    "random_source",
    "sharpness",
    "sharpness_by_layer",
    "spectral_density",
    "step_sharpness",
    "subset",
    "trace",
]
