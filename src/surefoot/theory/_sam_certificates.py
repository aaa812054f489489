"""What SAM's climb is proved to do to the loss and to the confidence in the true class."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.theory._ascent import Ascent, ascent
from surefoot.theory._certificate import Certificate, certificate, worst_of


@dataclass(frozen=True, eq=False)
class SamTheory:
    """The inequalities of Tan et al. on one batch, with what they were evaluated from.

    Certificates say `measured` <= `bound`, and lower bounds are turned around to fit: the smaller side is `measured`.
    Where a side would come out negative its terms are moved to the other one, so that `slack` stays a ratio.
    """

    ascent: Ascent  # losses, gradient norm, and curvature on the path, for plots
    gamma: float
    weight: float  # lambda = (1 - p~) / (1 - p), of geometric means
    weight_floor: float  # lambda_0 = (1 - p~) / (1 - exp(rho ||g|| / 2) p~), infinite where it is not defined
    lemma: Certificate  # rho ||g|| / 2 <= log(p / p~), by kappa_min
    lemma_along_gradient: Certificate  # the same by u^T H u, which is all that its proof uses
    theorem: Certificate  # L + H(p~) <= L~ + lambda H(p)
    weight_bound: Certificate  # lambda_0 <= lambda
    calibrated_theorem: Certificate  # l + (1 - gamma / 2) H(p~_y) <= CSAM's l~ + lambda H(p_y), the worst sample

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """All of them."""
        return (
            self.lemma,
            self.lemma_along_gradient,
            self.theorem,
            self.weight_bound,
            self.calibrated_theorem,
        )


def sam_certificates(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    rho: float,
    gamma: float = 0.0,
    num_points: int = 21,
    tolerance: float = 0.05,
    delta: float = 0.05,
    max_products: int = 100,
    seed: int = 0,
) -> SamTheory:
    r"""Lemmas 1 and 2 and Theorems 1 to 3 of Tan et al. on SAM and calibration, under cross-entropy, on one batch.

    p and p~ are geometric means of the true class's probability at theta and at theta~ = theta + rho g / ||g||, H is
    the binary entropy, u = g / ||g||. One sample gives Lemma 1 and Theorem 1, a larger batch Lemma 2 and Theorem 2.

    - Lemma: p~ <= exp(-rho ||g|| / 2) p where the loss is twice differentiable and kappa_min >= -||g|| / rho on the
      whole path, read as rho ||g|| / 2 <= log(p / p~). Lemma 1 is printed with ||g||^2, Lemma 2 with ||L||; the proofs
      give ||g||. They use kappa_min only through u^T H u >= -||g|| / rho, so this weaker condition has a certificate
      too. The path is seen at `num_points` points alone: "fails" can also mean that it was sampled too coarsely.
    - Theorem: L~ >= L - lambda H(p) + H(p~), lambda = (1 - p~) / (1 - p). True exactly where p~ <= p, whatever the
      Lemma says: the gap between its sides is convex in p~, zero at p, falling there and negative at 1.
    - lambda >= lambda_0: the Lemma once more. Where exp(rho ||g|| / 2) p~ >= 1, lambda_0 is taken as infinite.
    - Theorem 3: (1 + p~_y)^-gamma l~ >= l - lambda H(p_y) + (1 - gamma / 2) H(p~_y) for each sample with
      1/2 < p~_y <= p_y. Its left side is printed at theta; the proof has it at theta~. Lemma 1, which it is printed to
      need, serves for p~_y <= p_y alone, so samples of a larger batch count where that is so.

    `tolerance`, `delta`, `max_products` and the cost are those of `ascent`.

    >>> _ = torch.manual_seed(0)
    >>> theory = sam_certificates(nn.Linear(3, 2).double(), torch.eye(3).double(), torch.tensor([0, 1, 0]), rho=0.1)
    >>> [c.verdict for c in theory.certificates[:4]]
    ['holds', 'holds', 'holds', 'holds']
    """
    if not 0 <= gamma <= 2:
        raise ValueError(f"`gamma` must lie in [0, 2], got {gamma}.")
    climb = ascent(
        model,
        inputs,
        labels,
        rho=rho,
        num_points=num_points,
        tolerance=tolerance,
        delta=delta,
        max_products=max_products,
        seed=seed,
    )
    return certified(climb, gamma=gamma)


def certified(climb: Ascent, *, gamma: float) -> SamTheory:
    """The same from a climb already made."""
    lemma, theorem = ("Lemma 1", "Theorem 1") if len(climb.losses) == 1 else ("Lemma 2", "Theorem 2")
    before, after = torch.tensor([climb.loss, climb.perturbed_loss], dtype=torch.float64, device="cpu")
    weight = float(after.neg().expm1() / before.neg().expm1())
    left = climb.half_rise - climb.perturbed_loss  # log of exp(rho ||g|| / 2) p~
    floor = float(after.neg().expm1()) / math.expm1(left) if left < 0 else math.inf
    smooth, along = _unmet_by_smoothness(climb), _unmet_along_gradient(climb)
    sampled = f"twice differentiable loss; seen at {len(climb.t)} points of the path, not between them"
    by_gradient = (f"u^T H u >= {climb.threshold:.4g} on the path", sampled)
    return SamTheory(
        ascent=climb,
        gamma=gamma,
        weight=weight,
        weight_floor=floor,
        lemma=certificate(
            lemma,
            measured=climb.half_rise,
            bound=climb.rise,
            assumptions=(f"kappa_min >= {climb.threshold:.4g} on the path, at risk {climb.delta:.2g}", sampled),
            unmet=smooth + _unmet_by_kappa_min(climb),
        ),
        lemma_along_gradient=certificate(
            f"{lemma} along the gradient",
            measured=climb.half_rise,
            bound=climb.rise,
            assumptions=by_gradient,
            unmet=smooth + along,
        ),
        theorem=certificate(
            theorem,
            measured=before + binary_entropy(after),
            bound=after + weight * binary_entropy(before),
            assumptions=("the ascent did not lower the loss",),
            unmet=[] if after >= before else [f"the ascent lowered the loss from {before:.6g} to {after:.6g}"],
        ),
        weight_bound=certificate(
            "lambda >= lambda_0", measured=floor, bound=weight, assumptions=by_gradient, unmet=smooth + along
        ),
        calibrated_theorem=_calibrated_theorem(climb, gamma),
    )


def binary_entropy(losses: Tensor) -> Tensor:
    """-p log p - (1 - p) log(1 - p) for p = exp(-loss), precise at both ends.

    >>> binary_entropy(torch.tensor([math.log(2), 0.0, 1e-20], dtype=torch.float64)).tolist()
    [0.6931471805599453, 0.0, 4.705170185988092e-19]
    """
    other = -losses.neg().expm1()  # 1 - p
    log_other = torch.where(losses < math.log(2), other.log(), losses.neg().exp().neg().log1p())
    return losses.neg().exp() * losses - torch.where(other > 0, other * log_other, 0.0)


def _calibrated_theorem(climb: Ascent, gamma: float) -> Certificate:
    name = f"Theorem 3: l + (1 - gamma / 2) H(p~_y) <= (1 + p~_y)^-gamma l~ + lambda H(p_y), gamma = {gamma:g}"
    inside = (climb.perturbed_losses < math.log(2)) & (climb.perturbed_losses >= climb.losses) & (climb.losses > 0)
    assumption = f"1/2 < p~_y <= p_y < 1: {int(inside.sum())} of {len(inside)} samples"
    if not bool(inside.any()):
        return certificate(name, measured=math.nan, bound=math.nan, unmet=[assumption])
    before, after = climb.losses[inside], climb.perturbed_losses[inside]
    weights = after.neg().expm1() / before.neg().expm1()
    weighted = (-gamma * after.neg().exp().log1p()).exp() * after
    return worst_of(
        name,
        log_measured=(before + (1 - gamma / 2) * binary_entropy(after)).log(),
        log_bound=(weighted + weights * binary_entropy(before)).log(),
        assumptions=[assumption],
    )


def _unmet_by_smoothness(climb: Ascent) -> list[str]:
    unmet = []
    if climb.kinks:
        more = f" and {len(climb.kinks) - 1} more" if len(climb.kinks) > 1 else ""
        unmet.append(f"the loss is not known to be twice differentiable: {climb.kinks[0]}{more}")
    if climb.half_rise <= climb.rounding:
        unmet.append(f"rho ||g|| / 2 = {climb.half_rise:.2g} may be lost in the loss's rounding, {climb.rounding:.2g}")
    return unmet


def _unmet_by_kappa_min(climb: Ascent) -> list[str]:
    lowest = int((climb.kappa_min - climb.threshold).argmin())
    if float(climb.kappa_min[lowest]) < climb.threshold:
        value, at = float(climb.kappa_min[lowest]), float(climb.t[lowest])
        return [f"kappa_min >= {climb.threshold:.4g}, got {value:.4g} or less at t = {at:.3g}"]
    open_ = [float(t) for t in climb.t[~(climb.kappa_min_floor >= climb.threshold)]]
    return [f"kappa_min >= {climb.threshold:.4g} is not proved at t = {_listed(open_)}"] if open_ else []


def _unmet_along_gradient(climb: Ascent) -> list[str]:
    lowest = int(climb.directional.argmin())
    value, at = float(climb.directional[lowest]), float(climb.t[lowest])
    return [] if value >= climb.threshold else [f"u^T H u >= {climb.threshold:.4g}, got {value:.4g} at t = {at:.3g}"]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)
