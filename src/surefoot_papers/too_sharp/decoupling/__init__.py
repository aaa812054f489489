"""Does calibration follow margins or curvature, where the two are taken apart?"""

from surefoot_papers.too_sharp.decoupling.analysis import check, outcome

__all__ = ["check", "outcome"]
