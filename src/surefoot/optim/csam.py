"""Calibrated SAM."""

import math
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from surefoot.losses import Loss
from surefoot.optim._closure import Params
from surefoot.optim.sam import SAM

_MEMORY = 0.99  # of the running gap, per step


@runtime_checkable
class Weightable(Protocol):
    """A loss that says itself which part of it a weight per sample multiplies."""

    def weighted(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The loss of every sample [N] under weights [N]."""
        ...


class CSAM(SAM):
    r"""SAM with the loss of its second pass times (1 + p)^-gamma where the true class has probability p > 1/2.

    The weight is differentiated, as Equation 4 of the paper says; the climb goes by the plain loss. gamma = 0 is SAM,
    bit for bit; up to 2 the step still lowers the loss (Theorem 3), `beyond_two` allows up to 3. Inside the closure
    call `backward` on `optimizer.loss(logits, labels)`, which knows the pass it is in. A loss with a method `weighted`
    decides what the weight multiplies: ACLS leaves its regulariser alone. Two gradients per step.

    Two rules for gamma, both off by default and both ours: before step `onset` it is 0; and with `full_gap` it is
    multiplied by the running mean of confidence minus accuracy over `full_gap`, cut to [0, 1]. The gap is that of the
    batches (memory 0.99), unless `tell_gap` brings one from held-out data. `gamma_now` is what the rules give.

    >>> model = torch.nn.Linear(2, 3)
    >>> csam = CSAM(model.parameters(), SGD, rho=0.05, gamma=1.0, lr=0.1, momentum=0.9)
    >>> def closure():
    ...     loss = csam.loss(model(torch.eye(2)), torch.tensor([0, 1]))
    ...     loss.backward()
    ...     return loss.item()
    >>> first = csam.step(closure)
    >>> csam.step(closure) < first
    True
    """

    def __init__(
        self,
        params: Params,
        base: type[Optimizer] = SGD,
        *,
        rho: float = 0.05,
        gamma: float = 1.0,
        beyond_two: bool = False,
        onset: int = 0,
        full_gap: float | None = None,
        loss: Loss | None = None,
        **options: Any,
    ) -> None:
        super().__init__(params, base, rho=rho, loss=loss, **options)
        most = 3 if beyond_two else 2
        if not 0 <= gamma <= most:
            allow = "" if beyond_two else " (`beyond_two=True` allows up to 3)"
            raise ValueError(f"`gamma` must lie in [0, {most}], got {gamma}{allow}.")
        if onset < 0:
            raise ValueError(f"`onset` must be at least 0, got {onset}.")
        if full_gap is not None and not full_gap > 0:
            raise ValueError(f"`full_gap` must be positive, got {full_gap}.")
        self.gamma = gamma
        self.onset = onset
        self.full_gap = full_gap
        self.num_steps = 0
        self.gap: float | None = None  # confidence minus accuracy
        self._given = False
        self._asked = False

    @property
    def gamma_now(self) -> float:
        """The exponent of the present step."""
        if self.num_steps < self.onset:
            return 0.0
        if self.full_gap is None:
            return self.gamma
        return self.gamma * min(max((0.0 if self.gap is None else self.gap) / self.full_gap, 0.0), 1.0)

    def tell_gap(self, gap: float) -> None:
        """Use this confidence minus accuracy, of held-out data say, instead of that of the batches, from now on."""
        if not -1 <= gap <= 1:
            raise ValueError(f"`gap` must lie in [-1, 1], got {gap}.")
        self.gap, self._given = float(gap), True

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The plain loss in the first pass, the weighted one uphill."""
        if labels.ndim != 1 or labels.is_floating_point():
            raise ValueError(f"CSAM needs class labels [N], got shape {list(labels.shape)} of {labels.dtype}.")
        self._asked = True
        if not self._away:
            if self.full_gap is not None and not self._given and torch.is_grad_enabled():
                self._measure(logits.detach(), labels)
            return super().per_sample(logits, labels)
        gamma = self.gamma_now
        if gamma == 0:
            return super().per_sample(logits, labels)
        true = labels.clamp(min=0)[:, None]  # a label to be ignored is negative, and its loss 0
        p = logits.log_softmax(dim=1).gather(1, true).squeeze(1).exp()
        weights = torch.where(p > 0.5, torch.exp(-gamma * torch.log1p(p)), torch.ones_like(p))
        if isinstance(self.plain, Weightable):
            return self.plain.weighted(logits, labels, weights)
        return weights * super().per_sample(logits, labels)

    def report(self) -> dict[str, float]:
        """What a record of training should hold beside the losses."""
        return {"optimizer/gamma": self.gamma_now}

    def _measure(self, logits: Tensor, labels: Tensor) -> None:
        confidence, guess = logits.softmax(dim=1).max(dim=1)
        gap = float((confidence - (guess == labels).to(confidence)).mean())
        if not math.isfinite(gap):
            return
        self.gap = gap if self.gap is None else _MEMORY * self.gap + (1 - _MEMORY) * gap

    def _descend(self) -> None:
        if not self._asked:
            raise ValueError(
                "CSAM's closure must take its loss from `optimizer.loss(logits, labels)`: any other does not know "
                "the pass it is in."
            )
        self._asked = False
        self.num_steps += 1
        super()._descend()

    def _memory(self) -> dict[str, Any]:
        return {"num_steps": self.num_steps, "gap": self.gap, "told": self._given}

    def _remember(self, memory: dict[str, Any]) -> None:
        self.num_steps = memory.get("num_steps", 0)
        self.gap, self._given = memory.get("gap"), memory.get("told", False)
