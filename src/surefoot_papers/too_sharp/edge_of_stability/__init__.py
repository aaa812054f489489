"""Does training push curvature up to the edge of stability and hold it there?"""

from surefoot_papers.too_sharp.edge_of_stability.analysis import check, outcome
from surefoot_papers.too_sharp.edge_of_stability.figure import FIGURES

__all__ = ["FIGURES", "check", "outcome"]
