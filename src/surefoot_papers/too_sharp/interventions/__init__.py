"""Flat minima or flat directions: which optimizers keep training calibrated on its way?"""

from surefoot.report.study_figures import COMPARISON
from surefoot_papers.too_sharp.interventions.analysis import check, outcome

FIGURES = (COMPARISON,)

__all__ = ["FIGURES", "check", "outcome"]
