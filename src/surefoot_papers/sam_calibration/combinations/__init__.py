"""Do SAM and CSAM improve losses that calibrate already?"""

from surefoot_papers.sam_calibration.combinations.analysis import check, outcome

__all__ = ["check", "outcome"]
