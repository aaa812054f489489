"""Does an objective of robust margins and local smoothness calibrate without early stopping, for every optimizer?"""

from surefoot_papers.too_sharp.margin_aware.analysis import check, outcome

__all__ = ["check", "outcome"]
