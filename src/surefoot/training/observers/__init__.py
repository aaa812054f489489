"""Observers look at a snapshot and return numbers. They change nothing: training without them gives the same bits."""

from collections.abc import Callable

from surefoot.training.observers.batch_sharpness import BatchSharpnessObserver
from surefoot.training.observers.calibration import CalibrationObserver
from surefoot.training.observers.certificates import CertificatesObserver
from surefoot.training.observers.curvature import CurvatureObserver, HessianObserver
from surefoot.training.observers.decoupling import DecouplingObserver
from surefoot.training.observers.margins import MarginsObserver
from surefoot.training.observers.observer import Observer
from surefoot.training.observers.posthoc import PosthocObserver
from surefoot.training.observers.proxies import ProxiesObserver
from surefoot.training.observers.reliability import ReliabilityObserver
from surefoot.training.observers.robust_margins import RobustMarginsObserver
from surefoot.training.observers.sam_theory import SamTheoryObserver
from surefoot.training.observers.scores import ScoresObserver
from surefoot.training.observers.shift import ShiftObserver

OBSERVERS: dict[str, Callable[..., Observer]] = {
    "batch_sharpness": BatchSharpnessObserver,
    "calibration": CalibrationObserver,
    "certificates": CertificatesObserver,
    "curvature": CurvatureObserver,
    "decoupling": DecouplingObserver,
    "hessian": HessianObserver,
    "margins": MarginsObserver,
    "posthoc": PosthocObserver,
    "proxies": ProxiesObserver,
    "reliability": ReliabilityObserver,
    "robust_margins": RobustMarginsObserver,
    "sam_theory": SamTheoryObserver,
    "scores": ScoresObserver,
    "shift": ShiftObserver,
}

__all__ = [
    "OBSERVERS",
    "BatchSharpnessObserver",
    "CalibrationObserver",
    "CertificatesObserver",
    "CurvatureObserver",
    "DecouplingObserver",
    "HessianObserver",
    "MarginsObserver",
    "Observer",
    "PosthocObserver",
    "ProxiesObserver",
    "ReliabilityObserver",
    "RobustMarginsObserver",
    "SamTheoryObserver",
    "ScoresObserver",
    "ShiftObserver",
]
