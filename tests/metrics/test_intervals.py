import math
import sys
from pathlib import Path

import pytest
import torch

from references import slow
from surefoot.metrics import METRICS, interval, reliability
from surefoot.metrics.ranking import aurc_influence, separation
from surefoot.predictions import Predictions

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import coverage  # the simulation of the benchmark, on fewer samples

WITH_INTERVAL = [name for name, metric in METRICS.items() if metric.interval is not None]


@pytest.mark.parametrize("name", WITH_INTERVAL)
def test_an_interval_holds_its_value_and_narrows_with_the_level(name: str) -> None:
    p = Predictions(*slow.random_case(3, n=200))
    wide, narrow = interval(name, p, level=0.99), interval(name, p, level=0.5)
    assert wide.value == pytest.approx(METRICS[name](p).item(), rel=1e-9)
    assert wide.low <= narrow.low <= wide.value <= narrow.high <= wide.high
    assert wide.high - wide.low > 0
    assert wide.level == 0.99
    assert interval(name, p, level=0.99) == wide  # the same draws every time


def test_every_metric_has_an_interval_but_the_extreme() -> None:
    assert set(METRICS) - set(WITH_INTERVAL) == {"min_margin"}


@pytest.mark.parametrize(
    "name", [name for name in WITH_INTERVAL if name not in ("skce", "mean_margin", "log_margin_moment")]
)
def test_intervals_stay_in_range_for_perfect_and_for_hopeless_predictions(name: str) -> None:
    sure = torch.tensor([[40.0, 0.0], [0.0, 40.0]]).repeat(50, 1)
    labels = torch.tensor([0, 1]).repeat(50)
    if name != "auroc_correct":
        perfect = interval(name, Predictions(sure, labels))
        assert 0 <= perfect.low <= perfect.high < math.inf
        assert interval(name, Predictions(sure, 1 - labels)).low >= 0
    if name in ("auroc_ovr", "aurc", "mce"):
        assert perfect.high - perfect.low > 0.01  # no error in 100 samples is no proof


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 10_000])
@pytest.mark.parametrize(("kind", "ece"), [("calibrated", 0.0), ("overconfident", 0.03), ("alternating", 0.1)])
def test_coverage(kind: str, ece: float, n: int) -> None:
    """Of 60 intervals that hold the truth in 95 % of samples, 51 or fewer would in 1 of 300."""
    torch.set_num_threads(1)
    world, truth = coverage.world_with(kind, ece)
    held = coverage.coverage(world, truth, n=n, samples=60, progress=lambda done: None)
    assert truth["ece"] == pytest.approx(ece, abs=2e-3)
    assert {name: share for name, share in held.items() if share < 0.85 and name != "bootstrap"} == {}
    if ece == 0:
        assert held["bootstrap"] < 0.2  # why the plain bootstrap is not used


def test_the_influence_of_a_sample_is_what_it_adds() -> None:
    logits, labels = slow.random_case(2, n=400)
    p = Predictions(logits, labels)
    keep = torch.arange(400) != 7
    rest = Predictions(logits[keep], labels[keep])
    added = 399 * (METRICS["aurc"](p) - METRICS["aurc"](rest))
    assert aurc_influence(p)[7].item() == pytest.approx(added.item(), rel=0.05, abs=0.01)
    whole, part = separation(p.confidence, p.correct), separation(rest.confidence, rest.correct)
    assert whole.influence[7].item() == pytest.approx(399 * (whole.area - part.area).item(), rel=0.05, abs=0.01)
    assert whole.influence.mean().item() == pytest.approx(0.0, abs=1e-12)


def test_wilson_by_hand() -> None:
    p = Predictions(torch.tensor([[1.0, 0.0]] * 10), torch.tensor([0] * 8 + [1] * 2))
    found = interval("accuracy", p)
    assert (found.low, found.high) == pytest.approx((0.49016, 0.94332), abs=1e-5)


def test_bad_requests_are_refused() -> None:
    p = Predictions(*slow.random_case(0))
    with pytest.raises(ValueError, match=r"`level` must lie between 0 and 0\.999, got 95"):
        interval("ece", p, level=95)
    with pytest.raises(ValueError, match="`num_replicates` must be at least 100"):
        interval("ece", p, num_replicates=1)
    with pytest.raises(ValueError, match="Unknown metric with an interval 'min_margin'"):
        interval("min_margin", p)


def test_reliability_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.0], [800.0, 0.0]], dtype=torch.float64)
    low, top = reliability(Predictions(logits, torch.tensor([0, 1, 0])), num_bins=2)
    assert (low.left, low.right, low.count, low.confidence, low.accuracy) == (0.0, 0.5, 2, 0.5, 0.5)
    assert (top.count, top.confidence, top.accuracy) == (1, 1.0, 1.0)
    assert top.high == 1.0
    assert 0.1 < top.low < 0.3
    empty = reliability(Predictions(logits, torch.tensor([0, 1, 0])), num_bins=3)[0]
    assert empty.count == 0
    assert all(map(math.isnan, (empty.confidence, empty.accuracy, empty.low, empty.high)))
    assert empty.record() == {"left": 0.0, "right": 1 / 3, "count": 0} | dict.fromkeys(
        ("confidence", "accuracy", "low", "high")
    )


def certain(confidence: torch.Tensor, right: torch.Tensor) -> Predictions:
    return Predictions.from_probabilities(torch.stack([confidence, 1 - confidence], dim=1), 1 - right.long())


@pytest.mark.parametrize("name", ["ece", "ada_ece", "rms_ce", "sm_ece", "kce", "classwise_ece"])
def test_few_errors_prove_little(name: str) -> None:
    """Calibrated confidences near 1: most samples show no error at all, and 0 must not be ruled out."""
    held = 0
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        confidence = 1 - 10 ** (-2 - 2 * torch.rand(500, generator=generator, dtype=torch.float64))
        right = torch.rand(500, generator=generator, dtype=torch.float64) < confidence
        held += interval(name, certain(confidence, right)).low < 1e-12
    assert held >= 54


@pytest.mark.parametrize("name", ["ece", "ada_ece", "rms_ce", "sm_ece", "kce"])
def test_no_error_at_all_is_no_proof(name: str) -> None:
    sure = interval(name, certain(torch.ones(200, dtype=torch.float64), torch.ones(200)))
    assert sure.value == 0
    assert sure.high > 0.005


def test_many_classes_and_few_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(400, 50, generator=generator, dtype=torch.float64)
    p = Predictions(logits, torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0])
    assert interval("classwise_ece", p).low < 1e-12
    blind = Predictions(torch.randn(200, 100, generator=generator), torch.randint(100, (200,), generator=generator))
    found = interval("auroc_ovr", blind)
    assert found.low < 0.5 < found.high


def test_a_gap_of_exactly_zero_is_not_certain() -> None:
    confidence = torch.full((2000,), 0.9995, dtype=torch.float64)
    assert interval("ece", certain(confidence, torch.arange(2000) > 0)).high > 0.0005


def test_the_aurc_of_tied_confidences_has_the_right_spread() -> None:
    generator = torch.Generator().manual_seed(0)
    values, widths = [], []
    for _ in range(200):
        confidence = (torch.randint(5, 10, (500,), generator=generator).double() + 0.5) / 10
        p = certain(confidence, torch.rand(500, generator=generator, dtype=torch.float64) < confidence)
        found = interval("aurc", p)
        values.append(found.value)
        widths.append((math.log(found.high) - math.log(found.low)) / (2 * 1.96) * found.value)
    assert sum(widths) / 200 == pytest.approx(torch.tensor(values).std().item(), rel=0.15)


def test_areas_of_scores_that_do_not_vary() -> None:
    constant = interval("auroc_correct", Predictions(torch.zeros(100, 2), torch.arange(100) % 2))
    assert constant.low < 0.5 < constant.high < 1
    wrong = interval("auroc_correct", certain(torch.tensor([0.6] * 50 + [0.9] * 50).double(), torch.arange(100) < 50))
    assert wrong.value == wrong.low == 0
    assert 0 < wrong.high < 0.2


def test_high_levels_get_enough_draws() -> None:
    p = Predictions(*slow.random_case(3, n=400))
    assert interval("ece", p, level=0.999).high > interval("ece", p, level=0.99).high
