"""Correctness ranking loss."""

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._outputs import wide
from surefoot.losses.objective import Batch
from surefoot.predictions import Predictions

Score = Literal["confidence", "margin", "entropy"]


class CRL:
    r"""Cross-entropy + strength R: R ranks samples by how often training has got them right.

    Each sample i of a batch is paired with the next one j, the last with the first: R_i = relu(-t (s_i - s_j) + |d|)
    with d = a_i - a_j, t its sign, and R_i = 0 where t = 0. a is the share of passes in which the sample was right when
    stepped on, a = (count - c) / (E - c), c the smallest count of all samples and E the number of passes done, at least
    1; where all were right every time, a = 0. s is the largest probability; with `score="margin"` that minus the second
    largest, with "entropy" 1 - H / ln K. The slope goes through both s.

    Range [0, inf). Moon et al. 2020 with the strength of their code. Needs the samples' places in the training set;
    samples without one (index -1) have no rank. Couples the samples of a batch. Remembers `counts` and the passes.
    """

    couples_samples: ClassVar[bool] = True

    def __init__(self, *, num_samples: int, strength: float = 1.0, score: Score = "confidence") -> None:
        if num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1, got {num_samples}.")
        if not strength >= 0:
            raise ValueError(f"`strength` must be at least 0, got {strength}.")
        if score not in ("confidence", "margin", "entropy"):
            raise ValueError(f"`score` must be 'confidence', 'margin' or 'entropy', got {score!r}.")
        self.strength, self.score = strength, score
        self.counts = torch.zeros(num_samples, dtype=torch.int64, device="cpu")  # [N_train]
        self.num_passes = 0

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        logits = wide(model(batch.inputs))
        base = F.cross_entropy(logits, batch.labels, reduction="none")
        return base + self.strength * self.ranking(self._score(logits), batch.indices)  # [N]

    def ranking(self, scores: Tensor, indices: Tensor) -> Tensor:
        """R of every sample [N]."""
        least = self.counts.min()
        span = (max(1, self.num_passes) - least).clamp(min=0)
        places = indices.to(self.counts.device)
        share = torch.where(span > 0, (self.counts[places] - least) / span.clamp(min=1), 0.0).to(scores)
        gap = share - share.roll(-1)
        has_partner = (indices >= 0) & (indices >= 0).roll(-1)
        wrong_way = F.relu(gap.abs() - gap.sign() * (scores - scores.roll(-1)))
        return torch.where(has_partner & (gap != 0), wrong_way, 0.0)

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        """Count which samples were right."""
        right = (logits.argmax(dim=1) == batch.labels).to(self.counts)
        self.counts.index_add_(0, batch.indices.to(self.counts.device), right)

    def after_epoch(self, validation: Predictions | None) -> None:
        """One pass more; nothing is asked of a validation set."""
        self.num_passes += 1

    def state_dict(self) -> dict[str, Any]:
        """Counts and passes."""
        return {"counts": self.counts.clone(), "num_passes": self.num_passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state["counts"].shape != self.counts.shape:
            raise ValueError(f"The state is of {len(state['counts'])} samples, this CRL of {len(self.counts)}.")
        self.counts, self.num_passes = state["counts"].clone(), state["num_passes"]

    def _score(self, logits: Tensor) -> Tensor:
        p = logits.softmax(dim=1)
        if self.score == "entropy":
            return 1 + (p * logits.log_softmax(dim=1)).sum(dim=1) / math.log(p.shape[1])
        top = p.topk(2, dim=1).values
        return top[:, 0] - top[:, 1] if self.score == "margin" else top[:, 0]
