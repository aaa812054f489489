"""Which training methods calibrate, and what do they cost in accuracy?"""

from surefoot_papers.sam_calibration.methods.analysis import check, outcome

__all__ = ["check", "outcome"]
