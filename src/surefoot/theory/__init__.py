"""What the margins prove about calibration and curvature, evaluated on a model and its data."""

from surefoot.theory.certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory.chain import NoSoundBound
from surefoot.theory.lipschitz import margin_lipschitz, robust_margin_floor

__all__ = [
    "Certificate",
    "NoSoundBound",
    "Verdict",
    "certificate",
    "margin_lipschitz",
    "robust_margin_floor",
    "worst_of",
]
