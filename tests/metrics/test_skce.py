import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from references import slow
from surefoot.metrics import skce
from surefoot.metrics._skce import median_width
from surefoot.predictions import Predictions


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 5), n=st.integers(4, 31))
def test_estimators_equal_the_definition(seed: int, k: int, n: int) -> None:
    logits, labels = slow.random_case(seed, n=n, k=k, scale=1.0)
    p = Predictions(logits, labels)
    rows = p.probabilities
    width = float(((rows[:, None] - rows[None]).abs().sum(dim=2) / 2).flatten().quantile(0.5))
    assert median_width(p) == pytest.approx(width)
    pairs = slow.skce_pairs(logits, labels, width)
    total = sum(map(sum, pairs))
    diagonal = sum(pairs[i][i] for i in range(n))
    assert skce(p, estimator="biased").item() == pytest.approx(total / n**2)
    assert skce(p).item() == pytest.approx((total - diagonal) / (n * (n - 1)), abs=1e-12)
    linear = [pairs[2 * i][2 * i + 1] for i in range(n // 2)]
    assert skce(p, estimator="linear").item() == pytest.approx(sum(linear) / len(linear), abs=1e-12)
    blocks = [
        sum(pairs[i][j] for i in range(b, b + 3) for j in range(b, b + 3) if i != j) / 6 for b in range(0, n - 2, 3)
    ]
    found = skce(p, estimator="block", block_size=3, nu=width)
    assert found.item() == pytest.approx(sum(blocks) / len(blocks), abs=1e-12)


def test_the_unbiased_estimators_have_mean_zero_for_calibrated_predictions() -> None:
    generator = torch.Generator().manual_seed(0)
    values = {"unbiased": [], "linear": [], "block": [], "biased": []}
    for _ in range(200):
        logits = torch.randn(60, 3, generator=generator, dtype=torch.float64)
        labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
        for name, found in values.items():
            found.append(skce(Predictions(logits, labels), estimator=name, nu=0.5, block_size=10).item())
    for name, found in values.items():
        mean, error = torch.tensor(found).mean().item(), torch.tensor(found).std().item() / 200**0.5
        assert (abs(mean) < 4 * error) == (name != "biased"), name


def test_bad_requests_are_refused() -> None:
    p = Predictions(*slow.random_case(0, n=5))
    with pytest.raises(ValueError, match="Did you mean 'linear'"):
        skce(p, estimator="lineer")
    with pytest.raises(ValueError, match="`nu` must be positive and finite, got 0"):
        skce(p, nu=0)
    with pytest.raises(ValueError, match="at least 50 samples"):
        skce(p, estimator="block")
    with pytest.raises(ValueError, match="`block_size` must be at least 2"):
        skce(p, estimator="block", block_size=1)
    with pytest.raises(ValueError, match="its default, is 0"):
        skce(Predictions(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])))
    many = Predictions(torch.zeros(10_001, 2), torch.zeros(10_001, dtype=torch.long))
    with pytest.raises(ValueError, match="`nu` must be given for more than 10,000 samples, got 10,001"):
        skce(many)
