"""What margins and SAM's climb are proved to do to calibration and curvature, evaluated on a model and its data."""

from surefoot.theory._ascent import Ascent, ascent
from surefoot.theory._certificate import Certificate, Verdict, certificate, worst_of
from surefoot.theory._kinks import kinks
from surefoot.theory._logit_curvature import logit_curvature
from surefoot.theory._tail import Tail, ece_by_decile, exact_ece, log_missing, predicted_margin, tail
from surefoot.theory.calibration import calibration_certificates, robust_calibration_certificates
from surefoot.theory.chain import NoSoundBound
from surefoot.theory.curvature import curvature_certificates
from surefoot.theory.exact import exact_predictions
from surefoot.theory.jacobian import SampleCurvature, sample_curvature
from surefoot.theory.lipschitz import margin_lipschitz, robust_margin_floor
from surefoot.theory.proxies import MiniBatch, input_gradient_margins, low_rank_sharpness, mini_batch
from surefoot.theory.rescaling import Decoupled, decoupled, rescaled
from surefoot.theory.robust import RobustMargins, robust_margins
from surefoot.theory.sam import SamTheory, sam_certificates
from surefoot.theory.shift import Shift, certified_on_shift, smallest_shift

__all__ = [
    "Ascent",
    "Certificate",
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
