"""surefoot: calibration, curvature and margins, watched together while a classifier trains."""

__version__ = "0.1.0"
