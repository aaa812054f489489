"""Curvature of the training loss in the weights."""

from surefoot.curvature.eigen import Eigenpair, top_eigenpair, warm_start
from surefoot.curvature.ggn import GGN
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.matrix import CurvatureMatrix, subset

__all__ = ["GGN", "CurvatureMatrix", "Eigenpair", "Hessian", "subset", "top_eigenpair", "warm_start"]
