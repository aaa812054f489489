"""Who stays calibrated, and who notices, where the images are not those of training?"""

from surefoot_papers.sam_calibration.shift.analysis import check, outcome

__all__ = ["check", "outcome"]
