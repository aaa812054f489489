"""What the margins and the Jacobians prove about Gauss-Newton sharpness under cross-entropy."""

import math

import torch
from torch import Tensor

from surefoot.curvature import Eigenpair
from surefoot.predictions import Predictions
from surefoot.theory._calibration_certificates import INTERPOLATING, unmet_interpolation
from surefoot.theory._certificate import Certificate, certificate, worst_of
from surefoot.theory._logit_curvature import logit_curvature
from surefoot.theory._margin_tail import exact_ece, log_mean_exp, log_missing, predicted_margin
from surefoot.theory._sample_curvature import SampleCurvature

_WIDER = 1 + 64 * torch.finfo(torch.float32).eps  # what a sharpness by products in float32 may be too large by


def curvature_certificates(
    predictions: Predictions,
    samples: SampleCurvature,
    sharpness: Eigenpair | float,
    *,
    attacked: Tensor | None = None,
    num_bins: int = 15,
) -> list[Certificate]:
    """Lemma B.4, Theorems 4.1 (ii) and 4.2 (ii), (iii), Remark B.6, and three tighter bounds of ours.

    `samples` is what `sample_curvature` says of the same samples, `sharpness` the Gauss-Newton matrix's largest
    eigenvalue there; of an `Eigenpair` its value, which is never too large. `attacked` [N] as for
    `robust_calibration_certificates`.
    """
    value = sharpness if isinstance(sharpness, int | float) else sharpness.value
    if samples.norms.shape != predictions.labels.shape:
        raise ValueError(
            f"`samples` must be of the {predictions.num_samples} samples predicted, got {len(samples.norms)}."
        )
    squares = samples.norms.double().square()
    largest = float(squares.max())  # C_J^2
    factor = 2 * (predictions.num_classes - 1) * (largest * _WIDER)
    top = log_missing(predictions, predictions.predicted)  # log (1 - max p)
    curved = logit_curvature(predictions.logits)
    own_bounds = {
        "2 mean ||J_i||^2 (1 - max p_i)": 2 * float((squares * top.exp()).mean()),
        "mean ||J_i||^2 largest eigenvalue of diag p_i - p_i p_i^T": float((squares * curved).mean()),
        "mean sharpness of one sample": float(samples.sharpness.double().mean()),
    }
    certificates = [
        worst_of(
            "B.4: largest eigenvalue of diag p - p p^T <= 2 (1 - max p)",
            log_measured=curved.log(),
            log_bound=math.log(2) + top,
        ),
        _by_moment("4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q", value, factor, predictions.margin),
        *_by_ece(predictions, value, largest, num_bins=num_bins),
        _by_moment(
            "B.6: sharpness <= 2 C_J^2 (K - 1) mean exp(-predicted margin)",
            value,
            factor,
            predicted_margin(predictions),
        ),
        *(
            certificate(f"ours: sharpness <= {name}", measured=value, bound=bound * _WIDER)
            for name, bound in own_bounds.items()
        ),
    ]
    if attacked is not None:
        name = "4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q0"
        certificates.append(_by_moment(name, value, factor, attacked.double()))
    return certificates


def _by_moment(name: str, sharpness: float, factor: float, margin: Tensor) -> Certificate:
    """Sharpness <= factor mean exp(-margin)."""
    moment = float(log_mean_exp(-margin).exp())
    return certificate(name, measured=sharpness, bound=_times(factor, moment))


def _by_ece(predictions: Predictions, sharpness: float, largest: float, *, num_bins: int) -> list[Certificate]:
    """Theorem 4.2 (ii) and (iii), by the ECE of interpolating predictions; `largest` is C_J^2."""
    num_classes = predictions.num_classes
    rivals = num_classes - 1
    error = exact_ece(predictions, num_bins=num_bins)
    unmet = unmet_interpolation(predictions.margin)
    return [
        certificate(
            "4.2 (ii): sharpness <= 2 C_J^2 K (K - 1) ECE",
            measured=sharpness,
            bound=2 * (largest * _WIDER) * num_classes * rivals * error,
            assumptions=(INTERPOLATING,),
            unmet=unmet,
        ),
        certificate(
            "4.2 (iii): sharpness / (2 C_J^2 K (K - 1)) <= ECE",
            measured=sharpness / max(2 * largest * num_classes * rivals, 1e-300),
            bound=error,
            assumptions=(INTERPOLATING,),
            unmet=unmet,
        ),
    ]


def _times(factor: float, moment: float) -> float:
    return factor * moment if factor else 0.0  # a moment may be infinite, and weights that move nothing are flat
