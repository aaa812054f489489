"""What the loss does between the weights and the point that SAM climbs to."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.curvature import Eigenpair, Hessian, eigenpairs, random_source
from surefoot.curvature.eigen import check_accuracy
from surefoot.curvature.matrix import differentiable_eval
from surefoot.eval_mode import refuse_training
from surefoot.params import displaced, flat, unflat
from surefoot.predictions import Predictions
from surefoot.theory._differentiability import kinks

_ULPS = 32  # roundings, of the size of the last digit, that a forward pass may pile up
_LINEAR = 40  # from here on log(1 + exp(x)) is x to the last digit
_GUARDS = 1  # eigenvectors handed on along the path besides the one asked for


@dataclass(frozen=True, eq=False)
class Ascent:
    """Cross-entropy of one batch at theta, at theta~ = theta + rho g / ||g||, and its curvature on the way.

    kappa_min, the smallest eigenvalue of the Hessian, lies between `kappa_min_floor` and `kappa_min`: above is certain,
    below holds at all points together with probability 1 - `delta`.
    """

    rho: float
    gradient_norm: float  # ||g||, g the gradient of the mean loss at theta
    losses: Tensor  # [N], -log p_y at theta
    perturbed_losses: Tensor  # [N], at theta~
    rounding: float  # what the arithmetic of the model may add to a difference of mean losses
    kinks: tuple[str, ...]  # where the model is not twice differentiable
    t: Tensor  # [T], from 0 at theta to 1 at theta~
    kappa_min: Tensor  # [T]
    kappa_min_floor: Tensor  # [T], -inf where nothing is proved
    directional: Tensor  # [T], u^T H u for u = g / ||g||, never below kappa_min
    delta: float
    num_products: int  # with Hessians, in all

    @property
    def loss(self) -> float:
        """The mean loss at theta."""
        return float(self.losses.mean())

    @property
    def perturbed_loss(self) -> float:
        """The mean loss at theta~."""
        return float(self.perturbed_losses.mean())

    @property
    def probability(self) -> float:
        """The geometric mean p of the true class's probability at theta, exp(-loss)."""
        return math.exp(-self.loss)

    @property
    def perturbed_probability(self) -> float:
        """The same at theta~."""
        return math.exp(-self.perturbed_loss)

    @property
    def rise(self) -> float:
        """By how much the loss went up, log p - log p~."""
        return float((self.perturbed_losses - self.losses).mean())

    @property
    def half_rise(self) -> float:
        """Half of what the loss would rise by if it were linear, rho ||g|| / 2."""
        return self.rho * self.gradient_norm / 2

    @property
    def threshold(self) -> float:
        """-||g|| / rho: curvature above it on the whole path leaves at least the half rise."""
        return -self.gradient_norm / self.rho


def ascent(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    rho: float,
    num_points: int = 21,
    tolerance: float = 0.05,
    delta: float = 0.05,
    max_products: int = 100,
    seed: int = 0,
) -> Ascent:
    """Perturb the weights as SAM does on one batch, and measure curvature at `num_points` evenly spaced points.

    Batch norm and dropout must be in eval mode. One process only; the model is left as found: weights to the bit,
    gradients, buffers, mode, generators. `tolerance` and `max_products` are those of `eigenpairs` at each point;
    `delta` is shared out evenly among the points. Costs a Hessian and up to `max_products` + 1 products per point.
    """
    _check(inputs, labels, rho=rho, num_points=num_points, max_products=max_products)
    check_accuracy(tolerance, delta, "bound")
    refuse_training(model)
    with differentiable_eval(model):
        before = _predictions(model, inputs, labels)
        params, gradient = _gradient(model, inputs, labels)
        norm = float(gradient.norm())
        if norm == 0:
            raise ValueError("The gradient of the batch is zero, so there is no direction of ascent.")
        uphill = gradient / norm
        with displaced(params, by=unflat(rho * uphill, params)):
            after = _predictions(model, inputs, labels)
        times = torch.linspace(0, 1, num_points, dtype=torch.float64, device="cpu")
        rows, num_products, vectors, generator = [], 0, None, random_source(seed)
        for t in times.tolist():
            with displaced(params, by=unflat(t * rho * uphill, params)):
                hessian = Hessian(model, precise_cross_entropy, inputs, labels)
                along = float(uphill @ (hessian @ uphill))
                pairs = _smallest(hessian, vectors, tolerance, delta / num_points, max_products, generator)
                del hessian  # its graph would live on while the next one is built
            vectors = torch.stack([pair.vector for pair in pairs])
            num_products += 1 + pairs[0].num_matvecs
            rows.append((pairs[0].value, pairs[0].bound, along))
        kinked = kinks(model, inputs)
    values, floors, curvatures = torch.tensor(rows, dtype=torch.float64, device="cpu").T
    return Ascent(
        rho=rho,
        gradient_norm=norm,
        losses=_losses(before),
        perturbed_losses=_losses(after),
        rounding=_rounding(before, after, gradient, flat([p.detach() for p in params])),
        kinks=kinked,
        t=times,
        kappa_min=values,
        kappa_min_floor=floors,
        directional=curvatures,
        delta=delta,
        num_products=num_products,
    )


def _smallest(
    hessian: Hessian,
    start: Tensor | None,
    tolerance: float,
    delta: float,
    max_products: int,
    generator: torch.Generator,
) -> list[Eigenpair]:
    return eigenpairs(
        hessian.__matmul__,
        hessian.like,
        which="smallest algebraic",
        start=start,
        guards=_GUARDS,
        tolerance=tolerance,
        delta=delta,
        max_matvecs=max_products,
        generator=generator,
    )


def _check(inputs: Tensor, labels: Tensor, *, rho: float, num_points: int, max_products: int) -> None:
    if not 0 < rho < math.inf:
        raise ValueError(f"`rho` must be positive and finite, got {rho}.")
    if num_points < 2:
        raise ValueError(f"`num_points` must be at least 2, for both ends of the path, got {num_points}.")
    if max_products < 1:
        raise ValueError(f"`max_products` must be at least 1, got {max_products}.")
    if len(labels) < 1 or len(inputs) != len(labels):
        raise ValueError(
            f"`labels` must hold one label per input and at least one, got {len(labels)} for {len(inputs)} inputs."
        )


def precise_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy [N] to full relative precision, its derivatives too, also where p_y is nearly 1.

    The usual one goes by log p_y and loses all digits there: its gradient holds p_y - 1.

    >>> float(precise_cross_entropy(torch.tensor([[50.0, 0.0]], dtype=torch.float64), torch.tensor([0])))
    1.9287498479639178e-22
    """
    label = labels.long()[:, None]
    others = logits.scatter(1, label, -torch.inf).logsumexp(dim=1)
    return F.softplus(others - logits.gather(1, label)[:, 0], threshold=_LINEAR)


def _predictions(model: nn.Module, inputs: Tensor, labels: Tensor) -> Predictions:
    with torch.no_grad():
        return Predictions(model(inputs), labels)


def _gradient(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[list[nn.Parameter], Tensor]:
    """The parameters that move, and the gradient of the mean loss [P] in float64."""
    here = Hessian(model, precise_cross_entropy, inputs, labels)
    if here.num_samples != len(labels):
        raise ValueError(f"`labels` must be those of all processes, got {len(labels)} of {here.num_samples}.")
    return here.params, here.gradient().double()


def _losses(predictions: Predictions) -> Tensor:
    return precise_cross_entropy(predictions.exact, predictions.labels).cpu()


def _rounding(before: Predictions, after: Predictions, gradient: Tensor, weights: Tensor) -> float:
    """Of logits, which count by 2 (1 - p_y) at most, and of weights, which count by the gradient."""
    logits = sum((-2 * (-_losses(p)).expm1() * p.exact.abs().amax(dim=1).cpu()).mean() for p in (before, after))
    by_logits = torch.finfo(before.logits.dtype).eps * float(logits)
    by_weights = torch.finfo(weights.dtype).eps * float(gradient.norm() * weights.double().norm())
    return _ULPS * (by_logits + by_weights)
