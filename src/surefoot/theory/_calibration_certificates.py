"""What the margins of some predictions prove about their calibration error. Needs logits and labels, no model."""

import math

import torch
from torch import Tensor

from surefoot.predictions import Predictions
from surefoot.theory._certificate import Certificate, certificate, worst_of
from surefoot.theory._margin_tail import exact_ece, log_mean_exp, log_missing

INTERPOLATING = "every sample classified right with a positive margin"


def calibration_certificates(predictions: Predictions, *, num_bins: int = 15) -> list[Certificate]:
    """Lemmas B.1 to B.3, Theorems 4.1 (i) and 4.2 (i), (v), and a tighter bound of ours, for ECE with `num_bins` bins.

    Costs less than a forward pass. Bounds may exceed 1; they are not cut.
    """
    rivals = predictions.num_classes - 1
    error = exact_ece(predictions, num_bins=num_bins)
    missing = log_missing(predictions)  # log (1 - p_y)
    top = log_missing(predictions, predictions.predicted)
    distance = torch.where(predictions.correct, top, torch.log1p(-top.exp()))  # log |hit - confidence|
    margin = predictions.margin
    moment = log_mean_exp(-margin)
    unmet = unmet_interpolation(margin)
    met = (INTERPOLATING,)
    mean = log_mean_exp(missing).exp()
    return [
        certificate("B.1: ECE <= mean |hit - confidence|", measured=error, bound=log_mean_exp(distance).exp()),
        worst_of("B.2: |hit - confidence| <= 1 - p_y", log_measured=distance, log_bound=missing),
        worst_of("B.3: 1 - p_y <= (K - 1) exp(-m)", log_measured=missing, log_bound=math.log(rivals) - margin),
        worst_of(
            "B.3: exp(-m) / (1 + (K - 1) exp(-m)) <= 1 - p_y",
            log_measured=-margin - torch.nn.functional.softplus(math.log(rivals) - margin),
            log_bound=missing,
        ),
        certificate("4.1 (i): ECE <= (K - 1) Q", measured=error, bound=rivals * moment.exp()),
        certificate(
            "4.2 (i): Q / K <= ECE",
            measured=moment.exp() / predictions.num_classes,
            bound=error,
            assumptions=met,
            unmet=unmet,
        ),
        certificate(
            "4.2 (i): ECE <= (K - 1) exp(-gamma)",
            measured=error,
            bound=rivals * (-margin.min()).exp(),
            assumptions=met,
            unmet=unmet,
        ),
        certificate(
            "4.2 (v): ECE = mean (1 - p_y), whatever the bins",
            measured=abs(error - float(mean)),
            bound=1e-9 * float(mean),
            assumptions=met,
            unmet=unmet,
        ),
        certificate("ours: ECE <= mean (1 - p_y)", measured=error, bound=mean),
    ]


def robust_calibration_certificates(
    predictions: Predictions,
    attacked: Tensor,
    *,
    radius: float,
    floor: Tensor | None = None,
    lipschitz: Tensor | None = None,
    num_bins: int = 15,
) -> list[Certificate]:
    """Lemma B.5, Theorems 4.1 (i) and 4.2 (iv) with robust margins within `radius`, and Proposition B.7.

    `attacked` [N] is what an attack that tried no shift too has left of each margin: an upper bound of the robust one,
    which is all that the first need. `lipschitz` [N] bounds how fast a margin changes with the input, from above.
    `floor` [N] bounds the robust margins from below, for B.7: no shift of the samples has a larger moment than Q0, and
    the attack's is one. Without it B.7 rests on an attack only, and is not judged.
    """
    rivals = predictions.num_classes - 1
    error, margin = exact_ece(predictions, num_bins=num_bins), predictions.margin
    attacked = attacked.double()
    certificates = [
        worst_of("B.5: exp(-m) <= exp(-m_eps)", log_measured=-margin, log_bound=-attacked),
        certificate("4.1 (i): ECE <= (K - 1) Q0", measured=error, bound=rivals * log_mean_exp(-attacked).exp()),
        _worst_case(attacked, floor),
    ]
    if lipschitz is not None:
        fading = -attacked - radius * lipschitz.double()
        unmet = unmet_interpolation(margin)
        certificates += [
            worst_of("B.5: exp(-eps L) exp(-m_eps) <= exp(-m)", log_measured=fading, log_bound=-margin),
            certificate(
                "4.2 (iv): Q- / K <= ECE",
                measured=log_mean_exp(fading).exp() / predictions.num_classes,
                bound=error,
                assumptions=(INTERPOLATING, "margins change at most as fast as the bound says"),
                unmet=unmet,
            ),
        ]
    return certificates


def _worst_case(attacked: Tensor, floor: Tensor | None) -> Certificate:
    name, log_moment = "B.7: mean exp(-m) of the worst shift found <= Q0", log_mean_exp(-attacked)
    if floor is None:
        unmet = ("robust margins from below: attack only, not a proof",)
        return certificate(name, measured=log_moment.exp(), bound=log_moment.exp(), unmet=unmet)
    bound = log_mean_exp(-floor.double()).exp()
    met = ("robust margins from below, proved from the weights",)
    return certificate(name, measured=log_moment.exp(), bound=bound, assumptions=met)


def unmet_interpolation(margin: Tensor) -> tuple[str, ...]:
    """What of the assumption that all margins [N] are positive is not met: nothing, or the smallest margin."""
    smallest = float(margin.min())
    return () if smallest > 0 else (f"not {INTERPOLATING}: the smallest margin is {smallest:.3g}",)
