"""Do the margin bounds hold along training, how tight are they, and do their constants stay bounded?"""

from surefoot_papers.too_sharp.certificates.analysis import check, outcome
from surefoot_papers.too_sharp.certificates.figure import FIGURES

__all__ = ["FIGURES", "check", "outcome"]
