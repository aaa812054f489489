"""Does SAM's climb lower the confidence in the true class as is proved, and are the assumptions met?"""

from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.theory.analysis import check, outcome
from surefoot_papers.sam_calibration.theory.figure import PATHS

FIGURES: tuple[StudyFigure, ...] = (PATHS,)

__all__ = ["FIGURES", "check", "outcome"]
