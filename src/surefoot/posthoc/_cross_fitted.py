"""What a post-hoc map would do to samples that it was not fitted on, without a second file."""

import torch

from surefoot.posthoc.map import Map
from surefoot.predictions import Predictions


def cross_fitted(kind: type[Map], predictions: Predictions, *, num_folds: int = 5, seed: int = 0) -> Predictions:
    """Every sample mapped by the map of that kind fitted on the folds that it is not in, in the given order.

    Folds are drawn at random by `seed`. Raises ValueError where a part of the samples has no such map.

    >>> from surefoot.posthoc import Temperature
    >>> sure = Predictions(torch.tensor([[4.0, 0.0]] * 40), torch.tensor([0, 0, 0, 1] * 10))
    >>> round(cross_fitted(Temperature, sure).confidence.mean().item(), 2)  # right three times in four
    0.75
    """
    n = predictions.num_samples
    if not 2 <= num_folds <= n:
        raise ValueError(f"`num_folds` must lie in 2..{n}, the number of samples, got {num_folds}.")
    fold = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(predictions.logits.device) % num_folds
    mapped = torch.empty_like(predictions.exact)
    for k in range(num_folds):
        inside = fold == k
        fitted = kind.fit(predictions[~inside])
        mapped[inside] = fitted(predictions.exact[inside])
    return Predictions(mapped, predictions.labels)
