"""What the margins prove about calibration and curvature, evaluated on a model and its data."""

from surefoot.theory.certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory.kinks import kinks

__all__ = ["Certificate", "Verdict", "certificate", "kinks", "worst_of"]
