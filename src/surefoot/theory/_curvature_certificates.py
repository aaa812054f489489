"""What the margins and the Jacobians prove about Gauss-Newton sharpness under cross-entropy."""

import math

import torch
from torch import Tensor

from surefoot.curvature import Eigenpair
from surefoot.predictions import Predictions
from surefoot.theory._calibration_certificates import INTERPOLATING
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
    num_classes = predictions.num_classes
    rivals = num_classes - 1
    squares = samples.norms.double().square()
    largest = float(squares.max())
    wide = largest * _WIDER
    error = exact_ece(predictions, num_bins=num_bins)
    margin = predictions.margin
    moment = float(log_mean_exp(-margin).exp())
    top = log_missing(predictions, predictions.predicted)  # log (1 - max p)
    curved = logit_curvature(predictions.logits)
    smallest = float(margin.min())
    unmet = () if smallest > 0 else (f"not {INTERPOLATING}: the smallest margin is {smallest:.3g}",)
    free = float(log_mean_exp(-predicted_margin(predictions)).exp())
    ours = 2 * float((squares * top.exp()).mean())
    certificates = [
        worst_of(
            "B.4: largest eigenvalue of diag p - p p^T <= 2 (1 - max p)",
            log_measured=curved.log(),
            log_bound=math.log(2) + top,
        ),
        certificate(
            "4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q", measured=value, bound=_times(2 * rivals * wide, moment)
        ),
        certificate(
            "4.2 (ii): sharpness <= 2 C_J^2 K (K - 1) ECE",
            measured=value,
            bound=2 * wide * num_classes * rivals * error,
            assumptions=(INTERPOLATING,),
            unmet=unmet,
        ),
        certificate(
            "4.2 (iii): sharpness / (2 C_J^2 K (K - 1)) <= ECE",
            measured=value / max(2 * largest * num_classes * rivals, 1e-300),
            bound=error,
            assumptions=(INTERPOLATING,),
            unmet=unmet,
        ),
        certificate(
            "B.6: sharpness <= 2 C_J^2 (K - 1) mean exp(-predicted margin)",
            measured=value,
            bound=_times(2 * rivals * wide, free),
        ),
        certificate("ours: sharpness <= 2 mean ||J_i||^2 (1 - max p_i)", measured=value, bound=ours * _WIDER),
        certificate(
            "ours: sharpness <= mean ||J_i||^2 largest eigenvalue of diag p_i - p_i p_i^T",
            measured=value,
            bound=float((squares * curved).mean()) * _WIDER,
        ),
        certificate(
            "ours: sharpness <= mean sharpness of one sample",
            measured=value,
            bound=float(samples.sharpness.double().mean()) * _WIDER,
        ),
    ]
    if attacked is not None:
        robust = float(log_mean_exp(-attacked.double()).exp())
        certificates.append(
            certificate(
                "4.1 (ii): sharpness <= 2 C_J^2 (K - 1) Q0", measured=value, bound=_times(2 * rivals * wide, robust)
            )
        )
    return certificates


def _times(factor: float, moment: float) -> float:
    return factor * moment if factor else 0.0  # a moment may be infinite, and weights that move nothing are flat
