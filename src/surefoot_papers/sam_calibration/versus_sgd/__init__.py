"""Is SAM calibrated as it is, where SGD needs repair?"""

from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.versus_sgd.analysis import check, outcome
from surefoot_papers.sam_calibration.versus_sgd.figure import BESIDE

FIGURES: tuple[StudyFigure, ...] = (BESIDE,)

__all__ = ["FIGURES", "check", "outcome"]
