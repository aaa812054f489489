"""Squared error on probabilities."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._outputs import wide


@dataclass(frozen=True)
class Brier:
    """Squared distance of the probabilities from the one-hot label, summed over classes: the Brier score, trained on.

    Range [0, 2]. A proper score whose slope vanishes where the network is surely wrong, so it learns slowly. The sum
    over classes is that of Mukhoti et al. 2020, who take the mean over the batch, as training here does.
    """

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        p = wide(logits).softmax(dim=1)
        return (p - F.one_hot(labels.long(), num_classes=p.shape[1]).to(p)).square().sum(dim=1)  # [N]
