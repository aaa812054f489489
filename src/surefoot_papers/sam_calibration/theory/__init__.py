"""Does SAM's climb lower the confidence in the true class as is proved, and are the assumptions met?"""

from surefoot_papers.sam_calibration.theory.analysis import check, outcome

__all__ = ["check", "outcome"]
