"""How do rho and gamma move accuracy, calibration and entropy?"""

from surefoot_papers.sam_calibration.rho_gamma.analysis import check, outcome

__all__ = ["check", "outcome"]
