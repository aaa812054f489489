"""Adaptive and conditional label smoothing."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import wide
from surefoot.losses._penalised import Penalised, check_at_least_zero


@dataclass(frozen=True)
class ACLS(Penalised):
    r"""Cross-entropy + strength R: R pulls a logit above `margin` down and those far below the largest one up.

    R = high relu(z_max - margin)^2 + low / (K - 1) sum_k relu(sg(z_max) - z_k - margin)^2 over the classes below the
    largest, sg meaning that no slope goes through it; entries that tie with the largest count as largest. Range
    [0, inf). Park et al. 2023 with the defaults of their code, for Tiny-ImageNet. `above="zero"` is as their code has
    it: not invariant to adding a constant to all logits. `above="smallest"` puts z_max - z_min for z_max in the first
    term, with a slope through both, which is: a reading of the paper that we could not verify.
    """

    strength: float = 0.1
    margin: float = 10.0
    high: float = 1.0
    low: float = 0.1
    above: Literal["zero", "smallest"] = "zero"  # what the largest logit is measured from

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength", "margin", "high", "low")
        if self.above not in ("zero", "smallest"):
            raise ValueError(f"`above` must be 'zero' or 'smallest', got {self.above!r}.")

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """R [N]."""
        logits = wide(logits)
        largest = logits.max(dim=1, keepdim=True).values.detach()
        top = logits == largest
        height = logits - logits.amin(dim=1, keepdim=True) if self.above == "smallest" else logits
        over = F.relu(height - self.margin).square() * top
        under = F.relu(largest - logits - self.margin).square() * ~top
        return self.high * over.sum(dim=1) + self.low / (logits.shape[1] - 1) * under.sum(dim=1)
