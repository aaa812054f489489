"""Flat minima or flat directions: which optimizers keep training calibrated on its way?"""

from surefoot_papers.too_sharp.interventions.analysis import check, outcome

__all__ = ["check", "outcome"]
