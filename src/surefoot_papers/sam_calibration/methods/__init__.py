"""Which training methods calibrate, and what do they cost in accuracy?"""

from surefoot.report.study_figures import COMPARISON
from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.methods.analysis import check, outcome

FIGURES: tuple[StudyFigure, ...] = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
