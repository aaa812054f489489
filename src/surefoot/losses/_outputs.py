"""What logits say of their samples, in a form that can be differentiated; `Predictions` is the one that cannot."""

import torch
from torch import Tensor


def wide(logits: Tensor) -> Tensor:
    """The logits in single precision at least: losses take logarithms and sums that half precision loses."""
    return logits.float() if logits.dtype.itemsize < 4 else logits


def true_log_probability(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of the true class."""
    return wide(logits).log_softmax(dim=1).gather(1, labels.long()[:, None]).squeeze(1)  # [N]


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """The true class's logit over the largest other."""
    true = labels.long()[:, None]
    return logits.gather(1, true).squeeze(1) - logits.scatter(1, true, -torch.inf).amax(dim=1)  # [N]


def power(base: Tensor, exponent: float | Tensor) -> Tensor:
    """base^exponent for bases in [0, 1], with finite slopes: powers of 0 have none."""
    return base.clamp(min=1e-12).pow(exponent)


def top_label(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability, and whether it is the true class's: 1 or 0, without a slope."""
    confidence, guess = wide(logits).softmax(dim=1).max(dim=1)
    return confidence, (guess == labels).to(confidence)  # [N], [N]


def others(logits: Tensor, labels: Tensor) -> Tensor:
    """The logits of all classes but the true one, in their order."""
    places = torch.arange(logits.shape[1] - 1, device=logits.device).expand(len(labels), -1)
    return logits.gather(1, places + (places >= labels.long()[:, None]))  # [N, K - 1]
