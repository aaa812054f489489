"""Do calibration error and curvature rise and fall together while a network trains?"""

from surefoot_papers.too_sharp.coupling.analysis import check, outcome
from surefoot_papers.too_sharp.coupling.figure import FIGURES

__all__ = ["FIGURES", "check", "outcome"]
