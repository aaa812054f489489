"""Does squared error on logits keep calibration error and curvature up, where cross-entropy lets both collapse?"""

from surefoot_papers.too_sharp.mse.analysis import check, outcome

__all__ = ["check", "outcome"]
