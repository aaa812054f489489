"""What the margins prove about calibration and curvature, evaluated on a model and its data."""

from surefoot.theory.calibration import calibration_certificates, robust_calibration_certificates
from surefoot.theory.certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory.curvature import curvature_certificates, logit_curvature
from surefoot.theory.jacobian import jacobian_norms
from surefoot.theory.tail import Tail, ece_by_decile, exact_ece, log_missing, predicted_margin, tail

__all__ = [
    "Certificate",
    "Tail",
    "Verdict",
    "calibration_certificates",
    "certificate",
    "curvature_certificates",
    "ece_by_decile",
    "exact_ece",
    "jacobian_norms",
    "log_missing",
    "logit_curvature",
    "predicted_margin",
    "robust_calibration_certificates",
    "tail",
    "worst_of",
]
