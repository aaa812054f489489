"""Do methods that calibrate end in flat minima?"""

from surefoot.report.study_figures import COMPARISON
from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.flatness.analysis import check, outcome

FIGURES: tuple[StudyFigure, ...] = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
