"""Does calibration follow margins or curvature, where the two are taken apart?"""

from surefoot.report.study_figures import COMPARISON
from surefoot_papers.too_sharp.decoupling.analysis import check, outcome

FIGURES = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
