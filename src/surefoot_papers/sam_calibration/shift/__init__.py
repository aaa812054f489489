"""Who stays calibrated, and who notices, where the images are not those of training?"""

from surefoot.studies.figure import StudyFigure
from surefoot_papers.sam_calibration.shift.analysis import check, outcome
from surefoot_papers.sam_calibration.shift.figure import SEVERITIES

FIGURES: tuple[StudyFigure, ...] = (SEVERITIES,)

__all__ = ["FIGURES", "check", "outcome"]
