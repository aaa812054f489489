"""Observers look at a snapshot and return numbers. They change nothing: training without them gives the same bits."""

from collections.abc import Callable

from surefoot.training.observers.calibration import Calibration
from surefoot.training.observers.curvature import Curvature
from surefoot.training.observers.margins import Margins
from surefoot.training.observers.observer import Observer

OBSERVERS: dict[str, Callable[..., Observer]] = {
    "calibration": Calibration,
    "curvature": Curvature,
    "margins": Margins,
}

__all__ = ["OBSERVERS", "Calibration", "Curvature", "Margins", "Observer"]
