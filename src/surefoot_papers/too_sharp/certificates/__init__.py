"""Do the margin bounds hold along training, how tight are they, and do their constants stay bounded?"""

from surefoot_papers.too_sharp.certificates.analysis import check, outcome

__all__ = ["check", "outcome"]
