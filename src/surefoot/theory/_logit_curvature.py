"""How curved cross-entropy is in the logits."""

import torch
from torch import Tensor

from surefoot.predictions import Predictions
from surefoot.theory._margin_tail import log_missing

_NUMBERS = 2**22  # of matrix entries held at once


def logit_hessians(logits: Tensor) -> Tensor:
    """Diag p - p p^T of every sample, [N, K, K] in float64; 1 - p of the largest class is never a subtraction."""
    predictions = Predictions(logits, logits.argmax(dim=1))
    p = predictions.exact.softmax(dim=1)
    rest = (1 - p).scatter(1, predictions.labels[:, None], log_missing(predictions).exp()[:, None])  # 1 - p
    matrices = -p[:, :, None] * p[:, None, :]
    matrices.diagonal(dim1=1, dim2=2).copy_(p * rest)
    return matrices


def logit_curvature(logits: Tensor) -> Tensor:
    """The largest eigenvalue of diag p - p p^T of every sample, [N]."""
    size = max(1, _NUMBERS // logits.shape[1] ** 2)
    parts = [torch.linalg.eigvalsh(logit_hessians(part))[:, -1] for part in torch.split(logits, size)]
    return torch.cat(parts).clamp(min=0)
