"""Pairwise constraints."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import others, wide
from surefoot.losses._pairs import pair_sum
from surefoot.losses._penalised import Penalised, check_at_least_zero


@dataclass(frozen=True)
class CPC(Penalised):
    r"""Cross-entropy + discriminate D + exclude E: every class against the true one, and the others as equals.

    D = -1/(K-1) sum_j ln s(z_y - z_j) and E = -1/((K-1)(K-2)) sum_jk 1/2 ln s(z_j - z_k) over classes j, k other than
    the label, s the logistic function; j = k included, which adds the constant ln 2 / (2 (K - 2)). Range [0, inf).
    Cheng and Vasconcelos 2022, by formulas and weights of others' code: the authors' could not be read. Needs at least
    3 classes. O(N K^2) work, O(N K) memory.
    """

    strength: float = 1.0  # of both
    discriminate: float = 0.1
    exclude: float = 1.0

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength", "discriminate", "exclude")

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Both terms by their weights [N]."""
        logits = wide(logits)
        num_classes = logits.shape[1]
        if num_classes < 3:
            raise ValueError(f"CPC needs at least 3 classes, got {num_classes}.")
        rest = others(logits, labels)  # [N, K - 1]
        true = logits.gather(1, labels.long()[:, None])
        against = F.softplus(rest - true).mean(dim=1)
        among = pair_sum(rest) / (2 * (num_classes - 1) * (num_classes - 2))
        return self.discriminate * against + self.exclude * among
