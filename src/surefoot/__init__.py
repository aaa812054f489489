"""surefoot: measure and correct the calibration of classifiers, and follow it with curvature and margins in training.

    import surefoot as sf

    print(sf.evaluate(logits, labels))

The names below are imported when they are first used: `import surefoot` alone imports neither torch nor NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surefoot._version import __version__ as __version__

_NAMES = {
    # predictions, and files of them
    "Predictions": "surefoot.predictions",
    "read_predictions": "surefoot.io",
    # measure
    "evaluate": "surefoot.metrics",
    "ece": "surefoot.metrics",
    "interval": "surefoot.metrics",
    "StreamingMetrics": "surefoot.metrics",
    "reliability_diagram": "surefoot.report.reliability_diagram",
    # explain
    "diagnose": "surefoot.diagnosis.diagnose_predictions",
    # correct
    "calibrate": "surefoot.posthoc",
    "Temperature": "surefoot.posthoc",
    "load": "surefoot.posthoc",
    # train
    "SAM": "surefoot.optim",
    "CSAM": "surefoot.optim",
    "Muon": "surefoot.optim",
    "MarginAware": "surefoot.losses",
    "Watch": "surefoot.watch",
    # curvature, and what margins prove
    "sharpness": "surefoot.curvature",
    "certify": "surefoot.theory",
    # pages of runs and studies
    "report": "surefoot.report",
}

if TYPE_CHECKING:
    from pathlib import Path

    from surefoot.curvature import sharpness
    from surefoot.diagnosis.diagnose_predictions import diagnose
    from surefoot.io import read_predictions
    from surefoot.losses import MarginAware
    from surefoot.metrics import StreamingMetrics, ece, evaluate, interval
    from surefoot.optim import CSAM, SAM, Muon
    from surefoot.posthoc import Temperature, calibrate, load
    from surefoot.predictions import Predictions
    from surefoot.report.reliability_diagram import reliability_diagram
    from surefoot.theory import certify
    from surefoot.watch import Watch

    def report(folder: Path | str, out: Path | str | None = None) -> Path:
        """Write the HTML page of a run's or a study's folder; returns its path."""


__all__ = [  # noqa: RUF022 (in the order of the table)
    "Predictions",
    "read_predictions",
    "evaluate",
    "ece",
    "interval",
    "StreamingMetrics",
    "reliability_diagram",
    "diagnose",
    "calibrate",
    "Temperature",
    "load",
    "SAM",
    "CSAM",
    "Muon",
    "MarginAware",
    "Watch",
    "sharpness",
    "certify",
    "report",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_NAMES[name])
    if name == "report":
        return module  # the package itself, which can be called: a function here would hide its modules
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *_NAMES])
