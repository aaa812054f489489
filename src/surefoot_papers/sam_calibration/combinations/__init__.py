"""Do SAM and CSAM improve losses that calibrate already?"""

from surefoot.report.study_figures import COMPARISON
from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.combinations.analysis import check, outcome

FIGURES: tuple[StudyFigure, ...] = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
