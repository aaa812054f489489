"""Curvature of the training loss in the weights."""

from surefoot.curvature.eigen import Eigenpair, top_eigenpair, warm_start
from surefoot.curvature.ggn import GGN

__all__ = ["GGN", "Eigenpair", "top_eigenpair", "warm_start"]
