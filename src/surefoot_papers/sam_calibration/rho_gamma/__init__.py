"""How do rho and gamma move accuracy, calibration and entropy?"""

from surefoot.report.study_figures import COMPARISON
from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.rho_gamma.analysis import check, outcome

FIGURES: tuple[StudyFigure, ...] = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
