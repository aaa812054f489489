"""Is SAM calibrated as it is, where SGD needs repair?"""

from surefoot_papers.sam_calibration.versus_sgd.analysis import check, outcome

__all__ = ["check", "outcome"]
