"""Which member of SAM's family calibrates best?"""

from surefoot_papers.sam_calibration.variants.analysis import check, outcome

__all__ = ["check", "outcome"]
