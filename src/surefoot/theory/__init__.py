"""What the margins prove about calibration and curvature, evaluated on a model and its data."""

from surefoot.theory.certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory.chain import NoSoundBound
from surefoot.theory.lipschitz import margin_lipschitz, robust_margin_floor
from surefoot.theory.shift import Shift, certified_on_shift, smallest_shift

__all__ = [
    "Certificate",
    "NoSoundBound",
    "Shift",
    "Verdict",
    "certificate",
    "certified_on_shift",
    "margin_lipschitz",
    "robust_margin_floor",
    "smallest_shift",
    "worst_of",
]
