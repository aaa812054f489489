"""A metric of your own: a function of one `Predictions`.

One line puts it into the table, and everything that goes by names knows it: the command line, observers, scikit-learn's
scorers, torchmetrics. In the library it would be one file and that line, and the tests over `METRICS` would apply.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from torch import Tensor

from surefoot.integrations.scorers import scorer
from surefoot.metrics import METRICS, Metric
from surefoot.predictions import Predictions


def confident_errors(predictions: Predictions, *, threshold: float = 0.9) -> Tensor:
    """Share of samples that are wrong with a confidence above `threshold`. Range [0, 1], 0 is best."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"`threshold` must lie in [0, 1], got {threshold}.")
    return ((predictions.confidence > threshold) & ~predictions.correct).double().mean()


METRICS["confident_errors"] = Metric(
    "confident_errors",
    confident_errors,
    None,  # no interval
    higher_is_better=False,
    label="confident errors",
    meaning="share of samples that are wrong with a confidence above 0.9",
)

probabilities = torch.tensor([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.2, 0.8]])
by_hand = Predictions.from_probabilities(probabilities, torch.tensor([0, 1, 1, 1]))  # the second is wrong and sure
print(f"by hand: {confident_errors(by_hand):.2f}, n = {by_hand.num_samples}")
assert confident_errors(by_hand) == 0.25

pixels, labels = load_digits(return_X_y=True)
for strength in (0.001, 1.0):
    model = LogisticRegression(C=strength, max_iter=2000)
    scores = cross_val_score(model, pixels / 16, labels, cv=3, scoring=scorer("confident_errors", threshold=0.6))
    print(f"logistic regression, C = {strength}: {abs(scores.mean()):.4f}, 3 folds")
    assert (scores <= 0).all()
    assert (scores.min() == 0) == (strength == 0.001)  # held tight it is never sure, and so never sure and wrong
