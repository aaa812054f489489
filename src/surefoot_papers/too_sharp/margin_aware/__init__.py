"""Does an objective of robust margins and local smoothness calibrate without early stopping, for every optimizer?"""

from surefoot.report.study_figures import COMPARISON
from surefoot_papers.too_sharp.margin_aware.analysis import check, outcome

FIGURES = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
