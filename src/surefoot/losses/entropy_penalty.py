"""Confidence penalty."""

from dataclasses import dataclass

from torch import Tensor

from surefoot.losses._outputs import wide
from surefoot.losses._penalised import Penalised, check_at_least_zero


@dataclass(frozen=True)
class EntropyPenalty(Penalised):
    r"""Cross-entropy - strength H(p), H = -sum_k p_k ln p_k: low entropy costs.

    At least -strength ln K. Pereyra et al. 2017. The default of 0.1 is common, but not verified against the paper; code
    that averages over classes as well has strength / K in its place.
    """

    strength: float = 0.1

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength")

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """-H [N]."""
        logp = wide(logits).log_softmax(dim=1)
        return (logp.exp() * logp).sum(dim=1)
