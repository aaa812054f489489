import pytest
import torch

from references import slow
from surefoot.metrics import ece_test, skce_test
from surefoot.predictions import Predictions


def sample(seed: int, *, n: int, sharper: float = 1.0) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, 3, generator=generator, dtype=torch.float64)
    return Predictions(logits * sharper, torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0])


TESTS = {
    "ece": lambda p: ece_test(p, num_draws=99),
    "skce consistency": lambda p: skce_test(p, num_draws=99, nu=0.5),
    "skce multiplier": lambda p: skce_test(p, num_draws=99, nu=0.5, method="multiplier"),
    "skce block": lambda p: skce_test(p, nu=0.5, method="block", block_size=4),
}


@pytest.mark.parametrize("name", TESTS)
def test_p_values_are_uniform_under_calibration(name: str) -> None:
    values = torch.tensor([TESTS[name](sample(seed, n=120)).p_value for seed in range(300)])
    for level in (0.05, 0.2, 0.5):
        rejected = (values <= level).double().mean().item()
        assert abs(rejected - level) < 4 * (level * (1 - level) / 300) ** 0.5, (level, rejected)


@pytest.mark.parametrize("name", ["ece", "skce consistency", "skce multiplier"])
def test_overconfidence_is_found(name: str) -> None:
    assert max(TESTS[name](sample(seed, n=400, sharper=3.0)).p_value for seed in range(5)) <= 0.02


def test_many_samples_are_drawn_as_bin_sums_with_the_same_answer() -> None:
    p = sample(1, n=20_001)
    large = ece_test(p)
    small = ece_test(p[:20_000])
    assert large.method == "consistency resampling of normal bin sums"
    assert small.method == "consistency resampling"
    assert abs(large.p_value - small.p_value) < 0.1
    assert ece_test(sample(1, n=20_001, sharper=1.2)).p_value == 1 / 1001


def test_bad_requests_are_refused() -> None:
    p = Predictions(*slow.random_case(0))
    with pytest.raises(ValueError, match="Did you mean 'block'"):
        skce_test(p, method="blok")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`num_draws` must be at least 1, got 0"):
        ece_test(p, num_draws=0)
    with pytest.raises(ValueError, match="at least 2 blocks of 60 samples, got 60"):
        skce_test(p, method="block", block_size=60)


def test_ties_are_as_large_as_themselves() -> None:
    """One confidence for all: the p-value is that of a binomial count."""
    top = torch.full((200,), 0.75, dtype=torch.float64)
    probabilities = torch.stack([top, 1 - top], dim=1)
    for wrong in (50, 53):
        p = Predictions.from_probabilities(probabilities, (torch.arange(200) < wrong).long())
        counts = torch.distributions.Binomial(200, torch.tensor(0.25, dtype=torch.float64))
        at = torch.arange(201, dtype=torch.float64)
        exact = counts.log_prob(at).exp()[(at - 50).abs() >= abs(wrong - 50)].sum().item()
        assert ece_test(p).p_value == pytest.approx(exact, abs=0.05)
