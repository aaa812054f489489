"""surefoot: calibration, curvature and margins, watched together while a classifier trains."""

from surefoot._version import __version__ as __version__
