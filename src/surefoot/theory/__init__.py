"""What margins and SAM's climb are proved to do to calibration and curvature, evaluated on a model and its data."""

from surefoot.theory.ascent import Ascent, ascent
from surefoot.theory.certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory.kinks import kinks
from surefoot.theory.sam import SamTheory, sam_certificates

__all__ = [
    "Ascent",
    "Certificate",
    "SamTheory",
    "Verdict",
    "ascent",
    "certificate",
    "kinks",
    "sam_certificates",
    "worst_of",
]
