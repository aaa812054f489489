"""What margins and SAM's climb are proved to do to calibration and curvature, evaluated on a model and its data."""

from surefoot.theory._ascent import Ascent, ascent
from surefoot.theory._calibration_certificates import calibration_certificates, robust_calibration_certificates
from surefoot.theory._certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory._certify import Certification, certify
from surefoot.theory._chain import NoSoundBound
from surefoot.theory._curvature_certificates import curvature_certificates
from surefoot.theory._differentiability import kinks
from surefoot.theory._exact_predictions import exact_predictions
from surefoot.theory._logit_curvature import logit_curvature
from surefoot.theory._margin_tail import Tail, ece_by_decile, exact_ece, log_missing, predicted_margin, tail
from surefoot.theory._robust_margins import RobustMargins, robust_margins
from surefoot.theory._sam_certificates import SamTheory, sam_certificates
from surefoot.theory._sample_curvature import SampleCurvature, sample_curvature
from surefoot.theory.label_preserving_shift import Shift, certified_on_shift, smallest_shift
from surefoot.theory.lipschitz import margin_lipschitz, robust_margin_floor
from surefoot.theory.proxies import MiniBatch, input_gradient_margins, low_rank_sharpness, mini_batch
from surefoot.theory.rescaling import Decoupled, decoupled, rescaled

__all__ = [
    "Ascent",
    "Certificate",
    "Certification",
    "Decoupled",
    "MiniBatch",
    "NoSoundBound",
    "RobustMargins",
    "SamTheory",
    "SampleCurvature",
    "Shift",
    "Tail",
    "Verdict",
    "ascent",
    "calibration_certificates",
    "certificate",
    "certified_on_shift",
    "certify",
    "curvature_certificates",
    "decoupled",
    "ece_by_decile",
    "exact_ece",
    "exact_predictions",
    "input_gradient_margins",
    "kinks",
    "log_missing",
    "logit_curvature",
    "low_rank_sharpness",
    "margin_lipschitz",
    "mini_batch",
    "predicted_margin",
    "rescaled",
    "robust_calibration_certificates",
    "robust_margin_floor",
    "robust_margins",
    "sam_certificates",
    "sample_curvature",
    "smallest_shift",
    "tail",
    "worst_of",
]
