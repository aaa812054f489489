import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from references import slow
from surefoot.metrics import (
    METRICS,
    ece,
    kce,
    log_margin_moment,
    margin_quantiles,
    mean_margin,
    min_margin,
    nll,
)
from surefoot.predictions import Predictions

seeds = st.integers(0, 10_000)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, num_bins=st.integers(1, 40), scale=st.floats(0.01, 30))
def test_equal_the_definition(seed: int, num_bins: int, scale: float) -> None:
    logits, labels = slow.random_case(seed, scale=scale)
    p = Predictions(logits, labels)
    margins = slow.margins(logits, labels)
    pairs = {
        "ece": (ece(p, num_bins=num_bins), slow.ece(logits, labels, num_bins)),
        "kce": (kce(p), slow.kce(logits, labels, 0.2)),
        "nll": (nll(p), -sum(torch.log_softmax(logits, 1)[range(60), labels].tolist()) / 60),
        "mean_margin": (mean_margin(p), sum(margins) / 60),
        "min_margin": (min_margin(p), min(margins)),
        "log_margin_moment": (log_margin_moment(p), math.log(sum(math.exp(-m) for m in margins) / 60)),
    }
    for name, (value, reference) in pairs.items():
        assert float(value) == pytest.approx(reference, rel=1e-10, abs=1e-12), name


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
@pytest.mark.parametrize("name", METRICS)
def test_order_of_samples_and_names_of_classes_do_not_matter(name: str, seed: int) -> None:
    logits, labels = slow.random_case(seed)
    value = METRICS[name](Predictions(logits, labels))
    assert value.dtype == torch.float64
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    renamed = torch.randperm(4, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(METRICS[name](Predictions(logits[order], labels[order])), value)
    torch.testing.assert_close(METRICS[name](Predictions(logits[:, renamed], renamed.argsort()[labels])), value)


def test_bins_are_open_below_and_closed_above() -> None:
    half = Predictions(torch.zeros(2, 2), torch.tensor([0, 0]))  # confidence exactly 1/2, an edge of 2 bins
    sure = Predictions(torch.tensor([[0.0, 0.0], [800.0, 0.0]]), torch.tensor([0, 1]))
    assert ece(half, num_bins=2).item() == 0.5
    assert ece(sure, num_bins=2).item() == 0.75  # |1/2 - 1| and |1 - 0| in bins of their own, half weight each
    assert ece(sure, num_bins=1).item() == 0.25  # in one bin they cancel


def test_confidence_one_falls_into_the_top_bin() -> None:
    near = math.log(0.95 / 0.05)
    p = Predictions(torch.tensor([[near, 0.0], [800.0, 0.0]], dtype=torch.float64), torch.tensor([0, 1]))
    assert ece(p, num_bins=10).item() == pytest.approx(0.475)


def test_ece_stays_exact_for_many_float32_samples() -> None:
    n = 2_000_000  # a float32 running sum would be off in the third digit
    logits = torch.tensor([[math.log(0.7 / 0.3), 0.0]]).expand(n, 2)
    labels = (torch.arange(n) % 10 >= 7).long()
    assert ece(Predictions(logits, labels)).item() == pytest.approx(0.0, abs=1e-7)


def test_margin_quantiles() -> None:
    p = Predictions(torch.tensor([[0.0, m] for m in (1.0, 2.0, 3.0, 5.0, 9.0)]), torch.ones(5, dtype=torch.long))
    assert margin_quantiles(p, levels=[0.0, 0.5, 0.625, 1.0]).tolist() == [1.0, 3.0, 4.0, 9.0]
    with pytest.raises(ValueError, match="`levels`"):
        margin_quantiles(p, levels=[1.5])


def test_log_moment_survives_margins_of_a_thousand() -> None:
    p = Predictions(torch.tensor([[0.0, 1000.0], [0.0, 1000.0]]), torch.tensor([0, 0]))
    assert log_margin_moment(p).item() == 1000.0


@settings(max_examples=50, deadline=None)
@given(seed=seeds, scale=st.floats(0.1, 10))
def test_the_margin_moment_bounds_ece(seed: int, scale: float) -> None:
    logits, labels = slow.random_case(seed, scale=scale)
    p = Predictions(logits, labels)
    bound = 3 * math.exp(log_margin_moment(p).item())
    gap = (p.correct.double() - p.confidence).abs().mean().item()
    assert ece(p).item() <= gap * (1 + 1e-12) <= bound * (1 + 1e-12)


def test_num_bins_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="`num_bins` must be at least 1, got 0"):
        ece(Predictions(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)), num_bins=0)


@pytest.mark.parametrize("name", METRICS)
def test_no_metric_leaves_its_device(name: str) -> None:
    p = Predictions(torch.zeros(4, 3, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta"))
    assert METRICS[name](p).device.type == "meta"
