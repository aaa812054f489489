"""Do methods that calibrate end in flat minima?"""

from surefoot_papers.sam_calibration.flatness.analysis import check, outcome

__all__ = ["check", "outcome"]
