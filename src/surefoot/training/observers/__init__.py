"""Observers look at a snapshot and return numbers. They change nothing: training without them gives the same bits."""

from collections.abc import Callable

from surefoot.training.observers.batch_sharpness import BatchSharpness
from surefoot.training.observers.calibration import Calibration
from surefoot.training.observers.certificates import Certificates
from surefoot.training.observers.curvature import Curvature, HessianCurvature
from surefoot.training.observers.decoupling import Decoupling
from surefoot.training.observers.margins import Margins
from surefoot.training.observers.observer import Observer
from surefoot.training.observers.posthoc import Posthoc
from surefoot.training.observers.proxies import Proxies
from surefoot.training.observers.reliability import Reliability
from surefoot.training.observers.robust_margins import RobustMargins
from surefoot.training.observers.sam_theory import SamTheory
from surefoot.training.observers.scores import Scores
from surefoot.training.observers.shift import Shift

OBSERVERS: dict[str, Callable[..., Observer]] = {
    "batch_sharpness": BatchSharpness,
    "calibration": Calibration,
    "certificates": Certificates,
    "curvature": Curvature,
    "decoupling": Decoupling,
    "hessian": HessianCurvature,
    "margins": Margins,
    "posthoc": Posthoc,
    "proxies": Proxies,
    "reliability": Reliability,
    "robust_margins": RobustMargins,
    "sam_theory": SamTheory,
    "scores": Scores,
    "shift": Shift,
}

__all__ = [
    "OBSERVERS",
    "BatchSharpness",
    "Calibration",
    "Certificates",
    "Curvature",
    "Decoupling",
    "HessianCurvature",
    "Margins",
    "Observer",
    "Posthoc",
    "Proxies",
    "Reliability",
    "RobustMargins",
    "SamTheory",
    "Scores",
    "Shift",
]
