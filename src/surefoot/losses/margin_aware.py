"""The margin-aware objective: the tail of robust margins, and local smoothness."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.attack import quick_shift
from surefoot.losses._forward_passes import ForwardPasses, movable
from surefoot.losses._outputs import margin
from surefoot.losses._penalised import check_at_least_zero
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.objective import Batch, Loss
from surefoot.predictions import Predictions

# Between moves of the weight: a full-batch pass is one step, too little to see what the last move did.
FEWEST_STEPS = 10
LEARNING = 0.01  # what the validation NLL falls by while a model that is unsure is left to learn
RANGE = 100.0  # how far the weight goes from its start, as a factor: without an end it would run away early in training


class MarginAware:
    r"""Cross-entropy + tail ln(1 + (K - 1) exp(-m')) + smooth ||z(x + delta) - z(x)||^2 / eps^2, over max(1, smooth).

    delta is the shift of length eps that lowers the true margin m most, to first order, and m' = min(m(x), m(x +
    delta)): an upper bound of the robust margin. eps is `radius` per coordinate, radius sqrt(D) for inputs of D
    coordinates. The tail bounds the calibration error, ECE <= mean (1 - p_y) <= mean ln(1 + (K - 1) exp(-m')) <= (K -
    1) mean exp(-m'), and has a slope of at most 1 in each margin, however wrong the sample. No slope goes through
    delta. Range [0, inf). Ours; docs/margin_aware.md derives it.

    `smooth` is where its weight starts. After each pass, the log of the weight moves by `adapt` times how much too sure
    the model is of the validation split, beyond its standard error and cut to [-1, 1]: a model that would ask for a
    temperature above 1 is made smoother. One that is too unsure is made less smooth, unless its validation NLL still
    falls by a hundredth or more: every model is unsure at first. The weight stays within 1/100 and 100 times its start.
    `adapt` = 0 keeps it and needs no validation split. Above 1 it lowers all else instead: the learning rate bounds how
    steep a term may be.

    With `every` = k both terms are there at one step of k, times k, and the other steps go by cross-entropy alone; a
    value asked for without slopes has all terms, times 1. `num_steps` of the search for delta beyond the first take a
    further look each. Remembers the weight and the steps. One gradient in the inputs and one forward and backward pass
    beside cross-entropy's; the shifted look draws the same random numbers and leaves running statistics alone.

    >>> model, batch = nn.Linear(2, 3), Batch(torch.eye(2), torch.tensor([0, 1]), torch.arange(2))
    >>> plain = MarginAware.within(model(batch.inputs), batch.labels)
    >>> bool((MarginAware(smooth=1.0)(model, batch) > plain).all())
    True
    """

    within: ClassVar[Loss] = CrossEntropy()

    def __init__(
        self,
        *,
        tail: float = 0.2,
        smooth: float = 2.0,
        radius: float = 0.05,
        adapt: float = 1.0,
        every: int = 1,
        num_steps: int = 1,
    ) -> None:
        self.tail, self.smooth, self.radius, self.adapt = tail, smooth, radius, adapt
        check_at_least_zero(self, "tail", "smooth", "adapt")
        if not 0 < radius < math.inf:
            raise ValueError(f"`radius` must be positive and finite, got {radius}: without a shift there is no slope.")
        for name, count in (("every", every), ("num_steps", num_steps)):
            if count < 1:
                raise ValueError(f"`{name}` must be at least 1, got {count}.")
        self.every, self.num_steps = every, num_steps
        self.start = smooth
        self.lowest = math.inf  # validation NLL
        self.num_told = 0  # steps
        self.moved = 0  # the step at which the weight was last judged

    @staticmethod
    def needs_validation(options: Mapping[str, Any]) -> bool:
        """Whether one made with these options does."""
        return bool(options.get("adapt", 1.0) and options.get("smooth", 1.0))

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        return self.over(self.within, model, batch)

    def based_on(self, loss: Loss) -> Callable[[nn.Module, Batch], Tensor]:
        """The same objective with another loss in the place of cross-entropy, and this one's memory."""
        return lambda model, batch: self.over(loss, model, batch)

    def over(self, loss: Loss, model: nn.Module, batch: Batch) -> Tensor:
        """`loss` and both terms, one value per sample [N]."""
        times = self._times()
        if times == 0:
            return loss(model(batch.inputs), batch.labels) / max(1.0, self.smooth)
        passes = ForwardPasses(model)
        with torch.enable_grad():
            point = movable(batch.inputs)
            logits = passes.first(point)
            shift = self.shift(passes, point, logits, batch.labels)
        shifted = passes.again(batch.inputs + shift)
        value = loss(logits, batch.labels)
        if self.tail:
            value = value + times * self.tail * tail_bound(logits, shifted, batch.labels)
        if self.smooth:
            value = value + times * self.smooth * (shifted - logits).square().sum(dim=1) / self.length(shift) ** 2
        return value / max(1.0, self.smooth)  # [N]

    def shift(self, passes: ForwardPasses, point: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        """Where to look again: the worst shift that was found, [N, ...], without a graph."""
        return quick_shift(
            lambda inputs: margin(passes.again(inputs), labels),
            point,
            margin(logits, labels),
            radius=self.length(point),
            num_steps=self.num_steps,
        )

    def length(self, inputs: Tensor) -> float:
        """How far a shift goes."""
        return self.radius * math.sqrt(inputs.shape[1:].numel())

    def _times(self) -> int:
        """How often both terms count now."""
        if not (self.tail or self.smooth):
            return 0
        if not torch.is_grad_enabled():
            return 1
        return self.every if self.num_told % self.every == 0 else 0

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """One step more."""
        self.num_told += 1

    def after_epoch(self, validation: Predictions | None) -> None:
        """Move the weight of smoothness."""
        if not (self.adapt and self.smooth):
            return
        if validation is None:
            raise ValueError(
                "The margin-aware objective needs a validation split, got none: set `num_validation` of the data, "
                "or `adapt` to 0 to keep the weight of smoothness."
            )
        if self.num_told - self.moved < FEWEST_STEPS:
            return
        self.moved = self.num_told
        over, error = too_sure(validation)
        asked = math.copysign(min(max(abs(over) - error, 0.0), 1.0), over)
        validation_loss = float(F.cross_entropy(validation.exact, validation.labels.long()))
        learning, self.lowest = validation_loss < (1 - LEARNING) * self.lowest, min(validation_loss, self.lowest)
        if asked > 0 or not learning:
            moved = self.smooth * math.exp(self.adapt * asked)
            self.smooth = min(max(moved, self.start / RANGE), self.start * RANGE)

    def state_dict(self) -> dict[str, Any]:
        """The weight of smoothness, the lowest validation NLL, the steps done, and when the weight was last judged."""
        return {"smooth": self.smooth, "lowest": self.lowest, "num_told": self.num_told, "moved": self.moved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.smooth, self.lowest = state["smooth"], state["lowest"]
        self.num_told, self.moved = state["num_told"], state["moved"]


def too_sure(predictions: Predictions) -> tuple[float, float]:
    """By how much the NLL wants all logits shrunk, 1 - 1 / T of one Newton step towards the best T; its standard error.

    mean (sum_k p_k z_k - z_y) over the mean variance of z under p, the first and second derivative of the NLL in 1 / T.
    The error is that of the first alone. 0 where the logits say nothing.
    """
    logits, p = predictions.exact.detach(), predictions.exact.detach().softmax(dim=1)
    mean = (p * logits).sum(dim=1)
    spread = float((p * (logits - mean[:, None]).square()).sum(dim=1).mean())
    true = logits.gather(1, predictions.labels.long()[:, None]).squeeze(1)
    slope, error = float((mean - true).mean()), float((mean - true).std(correction=0)) / math.sqrt(len(true))
    if spread > 0:
        return slope / spread, error / spread
    return (math.copysign(math.inf, slope) if slope else 0.0), 0.0


def tail_bound(logits: Tensor, shifted: Tensor, labels: Tensor) -> Tensor:
    """ln(1 + (K - 1) exp(-m')), m' the lower of both true margins: at least the cross-entropy, of either look."""
    lower = torch.minimum(margin(logits, labels), margin(shifted, labels))
    return F.softplus(math.log(max(logits.shape[1] - 1, 1)) - lower)  # [N]
