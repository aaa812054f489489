"""Does squared error on logits keep calibration error and curvature up, where cross-entropy lets both collapse?"""

from surefoot.report.study_figures import COMPARISON
from surefoot_papers.too_sharp.mse.analysis import check, outcome

FIGURES = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
