import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from references import slow
from surefoot.metrics import (
    METRICS,
    accuracy,
    ada_ece,
    aurc,
    auroc_correct,
    auroc_ood,
    auroc_ovr,
    brier,
    brier_parts,
    classwise_ece,
    debiased_rms_ce,
    ece,
    entropy,
    kce,
    log_margin_moment,
    margin_quantiles,
    mce,
    mean_confidence,
    mean_margin,
    min_margin,
    mmce,
    nll,
    oe,
    rms_ce,
    sm_ece,
    ue,
)
from surefoot.metrics.scores import nll_values
from surefoot.predictions import Predictions

seeds = st.integers(0, 10_000)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, num_bins=st.integers(1, 40), scale=st.floats(0.01, 6))
def test_equal_the_definition(seed: int, num_bins: int, scale: float) -> None:
    logits, labels = slow.random_case(seed, scale=scale)
    p = Predictions(logits, labels)
    margins = slow.margins(logits, labels)
    top = slow.top_label(logits, labels)
    probabilities = [slow.softmax(row) for row in logits.tolist()]
    one_class = [slow.auroc([row[k] for row in probabilities], (labels == k).tolist()) for k in range(4)]
    right, wrong = int(p.correct.sum()), int((~p.correct).sum())
    pairs = {
        "ece": (ece(p, num_bins=num_bins), slow.ece(logits, labels, num_bins)),
        "ada_ece": (ada_ece(p, num_bins=num_bins), slow.ada_ece(logits, labels, num_bins)),
        "classwise_ece": (classwise_ece(p, num_bins=num_bins), slow.classwise_ece(logits, labels, num_bins)),
        "kce": (kce(p), slow.kce(logits, labels, 0.2)),
        "mmce": (mmce(p), slow.kce(logits, labels, 0.4)),
        "accuracy": (accuracy(p), right / 60),
        "mean_confidence": (mean_confidence(p), sum(c for c, _ in top) / 60),
        "nll": (nll(p), slow.nll(logits, labels)),
        "brier": (brier(p), slow.brier(logits, labels)),
        "entropy": (entropy(p), slow.entropy(logits)),
        "mean_margin": (mean_margin(p), sum(margins) / 60),
        "min_margin": (min_margin(p), min(margins)),
        "log_margin_moment": (log_margin_moment(p), math.log(sum(math.exp(-m) for m in margins) / 60)),
        "auroc_ovr": (auroc_ovr(p), sum(one_class) / 4),
        "aurc": (aurc(p), slow.aurc(top)),
    }
    functions = {"mce": mce, "rms_ce": rms_ce, "debiased_rms_ce": debiased_rms_ce, "oe": oe, "ue": ue}
    for name, reference in slow.binned(logits, labels, num_bins).items():
        pairs[name] = (functions[name](p, num_bins=num_bins), reference)
    if right and wrong:
        scores, hits = zip(*top, strict=True)
        pairs["auroc_correct"] = (auroc_correct(p), slow.auroc(list(scores), list(hits)))
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
    p = Predictions(*slow.random_case(0))
    expected = METRICS[name](p)
    with torch.device("meta"):  # where tensors would land that are made without naming a device
        found = METRICS[name](p)
    assert torch.equal(found, expected)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, scale=st.floats(0.1, 8))
def test_smooth_ece_equals_the_integral(seed: int, scale: float) -> None:
    logits, labels = slow.random_case(seed, scale=scale)
    reference = slow.sm_ece(slow.top_label(logits, labels))
    assert sm_ece(Predictions(logits, labels)).item() == pytest.approx(reference, rel=1e-3)


def test_smooth_ece_counts_mass_at_one_in_full() -> None:
    sure = torch.tensor([[800.0, 0.0]]).expand(500, 2)  # confidence exactly 1, always right
    unsure = torch.tensor([[math.log(0.8 / 0.2), 0.0]]).expand(500, 2)  # 0.8, right in 60 %
    labels = torch.cat([torch.zeros(500), (torch.arange(500) % 5 >= 3).float()]).long()
    p = Predictions(torch.cat([sure, unsure]), labels)
    assert sm_ece(p).item() == pytest.approx(0.1, abs=2e-3)  # all gaps of one sign: the mean gap


def test_smooth_ece_of_perfect_predictions_is_zero() -> None:
    assert sm_ece(Predictions(torch.tensor([[800.0, 0.0]]), torch.tensor([0]))).item() == 0.0


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_smooth_ece_is_at_least_the_mean_gap(seed: int) -> None:
    p = Predictions(*slow.random_case(seed))
    assert sm_ece(p).item() >= abs((p.confidence - p.correct.double()).mean().item()) * (1 - 1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, num_bins=st.integers(1, 40))
def test_brier_parts_add_up(seed: int, num_bins: int) -> None:
    p = Predictions(*slow.random_case(seed))
    parts = brier_parts(p, num_bins=num_bins)
    torch.testing.assert_close(
        parts.reliability - parts.resolution + parts.uncertainty + parts.within, brier(p), rtol=1e-12, atol=1e-12
    )
    one_hot = torch.nn.functional.one_hot(p.labels, 4).double()
    reliability = resolution = 0.0
    for k in range(4):
        pairs = list(zip(p.probabilities[:, k].tolist(), one_hot[:, k].bool().tolist(), strict=True))
        base = one_hot[:, k].mean().item()
        for n, mean, frequency in slow.bins(pairs, num_bins):
            reliability += n / 60 * (mean - frequency) ** 2
            resolution += n / 60 * (frequency - base) ** 2
    assert parts.reliability.item() == pytest.approx(reliability)
    assert parts.resolution.item() == pytest.approx(resolution)


def test_brier_has_no_within_part_for_constant_bins() -> None:
    p = Predictions.from_probabilities(torch.tensor([[0.75, 0.25]] * 3 + [[0.25, 0.75]]), torch.tensor([0, 0, 1, 1]))
    assert brier_parts(p, num_bins=2).within.item() == pytest.approx(0.0, abs=1e-15)


def test_ties_do_not_depend_on_the_order_of_samples() -> None:
    torch.manual_seed(0)
    rough = (torch.randn(400, 3) * 2).round()  # few distinct confidences
    labels = torch.randint(3, (400,))
    order = torch.randperm(400)
    for name, metric in METRICS.items():
        value, shuffled = metric(Predictions(rough, labels)), metric(Predictions(rough[order], labels[order]))
        torch.testing.assert_close(shuffled, value, msg=name, rtol=1e-9, atol=1e-12)


def test_aurc_of_ties_is_the_mean_over_their_orders() -> None:
    p = Predictions(torch.zeros(3, 2), torch.tensor([0, 0, 1]))  # one of three is wrong, none more confident
    orders = [(1, 1 / 2, 1 / 3), (0, 1 / 2, 1 / 3), (0, 0, 1 / 3)]
    assert aurc(p).item() == pytest.approx(sum(sum(order) / 3 for order in orders) / 3)


def test_auroc_of_other_distributions() -> None:
    p = Predictions(torch.zeros(2, 2), torch.tensor([0, 1]))
    assert auroc_ood(p, foreign=torch.tensor([0.4, 0.5, 0.6])).item() == pytest.approx(0.5)
    with pytest.raises(ValueError, match="`foreign`"):
        auroc_ood(p, foreign=torch.tensor([]))


def test_areas_that_do_not_exist_are_refused() -> None:
    p = Predictions(torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="2 positive and 0 negative"):
        auroc_correct(p)
    with pytest.raises(ValueError, match="at least 2 classes among the labels, got 1"):
        auroc_ovr(p)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, scale=st.floats(0.1, 10), k=st.integers(2, 6))
def test_gaps_are_bounded_by_margins(seed: int, scale: float, k: int) -> None:
    p = Predictions(*slow.random_case(seed, scale=scale, k=k))
    missing = -torch.expm1(-nll_values(p))  # 1 - p_y
    gap = (p.correct.double() - p.confidence).abs()
    tail = (-p.margin).exp()
    assert ece(p) <= gap.mean() + 1e-12
    assert (gap <= missing + 1e-12).all()
    assert (missing <= (k - 1) * tail * (1 + 1e-9) + 1e-12).all()
    assert (tail / (1 + (k - 1) * tail) <= missing * (1 + 1e-9) + 1e-12).all()
    if k == 2:
        torch.testing.assert_close(missing, tail / (1 + tail))


@settings(max_examples=30, deadline=None)
@given(seed=seeds, num_bins=st.integers(1, 30))
def test_two_classes_agree_with_the_binary_formula(seed: int, num_bins: int) -> None:
    p = Predictions(*slow.random_case(seed, k=2))
    odds = p.logits[:, 1] - p.logits[:, 0]
    one = torch.sigmoid(odds)
    pairs = list(zip(one.tolist(), p.labels.bool().tolist(), strict=True))
    reference = sum(n / 60 * abs(c - a) for n, c, a in slow.bins(pairs, num_bins))
    mirrored = [(1 - c, not a) for c, a in pairs]
    reference = (reference + sum(n / 60 * abs(c - a) for n, c, a in slow.bins(mirrored, num_bins))) / 2
    assert classwise_ece(p, num_bins=num_bins).item() == pytest.approx(reference, abs=1e-12)
    assert brier(p).item() == pytest.approx(2 * (one - p.labels).square().mean().item())
    assert auroc_ovr(p).item() == pytest.approx(slow.auroc(one.tolist(), p.labels.bool().tolist()))


def test_metrics_leave_given_probabilities_alone_and_read_them() -> None:
    logits, labels = slow.random_case(1)
    given = logits.softmax(dim=1)
    kept = given.clone()
    for name, metric in METRICS.items():
        value = metric(Predictions.from_probabilities(given, labels))
        torch.testing.assert_close(value, metric(Predictions(logits, labels)), msg=name)
    assert torch.equal(given, kept)


def test_a_true_class_without_probability_costs_infinitely() -> None:
    p = Predictions.from_probabilities(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    assert nll(p).item() == math.inf
    assert brier(p).item() == 2.0
