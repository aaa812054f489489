import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.metrics import ece
from surefoot.predictions import Predictions
from surefoot.theory import (
    Certificate,
    calibration_certificates,
    certificate,
    ece_by_decile,
    exact_ece,
    log_missing,
    predicted_margin,
    robust_calibration_certificates,
    tail,
    worst_of,
)


def drawn(seed: int, *, n: int, k: int, spread: float, right: bool) -> Predictions:
    """Logits whose margins reach from -spread to spread."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.rand(n, k, generator=generator, dtype=torch.float64)
    labels = torch.randint(k, (n,), generator=generator)
    if right:
        labels = logits.argmax(dim=1)
    return Predictions(logits, labels)


CASES = given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    k=st.integers(2, 12),
    spread=st.sampled_from([0.0, 0.1, 1.0, 5.0, 18.0, 50.0]),
    right=st.booleans(),
)


def by_name(certificates: list[Certificate], start: str) -> Certificate:
    (found,) = [item for item in certificates if item.name.startswith(start)]
    return found


@CASES
@settings(max_examples=300, deadline=None)
def test_no_inequality_ever_fails(seed: int, n: int, k: int, spread: float, right: bool) -> None:
    predictions = drawn(seed, n=n, k=k, spread=spread, right=right)
    for bins in (1, 15):
        for item in calibration_certificates(predictions, num_bins=bins):
            assert item.verdict != "fails", item
            assert (item.verdict == "assumption not met") == (
                item.name.startswith("4.2") and not tail(predictions.margin).interpolating
            )


@CASES
@settings(max_examples=100, deadline=None)
def test_robust_ones_hold_for_any_margins_below_the_clean_ones(
    seed: int, n: int, k: int, spread: float, right: bool
) -> None:
    predictions = drawn(seed, n=n, k=k, spread=spread, right=right)
    generator = torch.Generator().manual_seed(seed)
    lipschitz = 3 * torch.rand(n, generator=generator, dtype=torch.float64)
    attacked = predictions.margin - 0.1 * lipschitz * torch.rand(n, generator=generator, dtype=torch.float64)
    floor = attacked - torch.rand(n, generator=generator, dtype=torch.float64)
    for item in robust_calibration_certificates(predictions, attacked, radius=0.1, floor=floor, lipschitz=lipschitz):
        assert item.verdict != "fails", item


def test_what_the_assumptions_are_for() -> None:
    """Without interpolation ECE can be 0 with large moments: 4.2's lower side would fail."""
    logits = torch.zeros(4, 2, dtype=torch.float64)
    predictions = Predictions(logits, torch.tensor([0, 0, 1, 1]))
    lower = by_name(calibration_certificates(predictions), "4.2 (i): Q / K")
    assert lower.verdict == "assumption not met"
    assert lower.holds is None
    assert lower.measured > lower.bound
    assert "smallest margin is 0" in lower.assumptions[0]
    wrong = -5 * torch.eye(2, dtype=torch.float64)
    shifted = robust_calibration_certificates(
        Predictions(-wrong, torch.tensor([0, 1])), torch.tensor([-9.0, -9.0]), radius=0.1, lipschitz=torch.zeros(2)
    )
    assert by_name(shifted, "B.5: exp(-eps L)").verdict == "fails"  # a Lipschitz constant that is too small
    assert by_name(shifted, "4.2 (iv)").verdict == "fails"


def test_bins_matter_where_a_sample_is_wrong() -> None:
    """4.2 (v) without its assumption: half right and half wrong at equal confidence cancel in one bin."""
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0], [3.0, 0.0]], dtype=torch.float64)
    found = by_name(calibration_certificates(Predictions(logits, torch.tensor([0, 1, 0]))), "4.2 (v)")
    assert found.verdict == "assumption not met"
    assert found.measured > found.bound


def test_the_worst_shift_needs_margins_from_below() -> None:
    predictions = drawn(0, n=5, k=3, spread=3.0, right=True)
    attacked = predictions.margin - 1
    unproved = by_name(robust_calibration_certificates(predictions, attacked, radius=0.1), "B.7")
    assert unproved.verdict == "assumption not met"
    assert "not a proof" in unproved.assumptions[0]
    for floor, verdict in ((attacked - 0.5, "holds"), (attacked, "holds"), (attacked + 0.5, "fails")):
        found = by_name(robust_calibration_certificates(predictions, attacked, radius=0.1, floor=floor), "B.7")
        assert found.verdict == verdict


def test_an_attack_that_raises_a_margin_is_caught() -> None:
    predictions = drawn(0, n=5, k=3, spread=3.0, right=True)
    found = robust_calibration_certificates(predictions, predictions.margin + 0.1, radius=0.1)
    assert by_name(found, "B.5").verdict == "fails"


def test_two_classes_by_hand() -> None:
    """With two classes 1 - p_y = e^-m / (1 + e^-m): the lower side of B.3 is an equality."""
    predictions = Predictions(torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64), torch.tensor([0, 0]))
    missing = [1 / (1 + math.e), 1 / (1 + math.e**2)]
    assert log_missing(predictions).exp().tolist() == pytest.approx(missing)
    assert by_name(calibration_certificates(predictions), "B.3: exp").slack == pytest.approx(1)
    moment = (math.exp(-1) + math.exp(-2)) / 2
    first = by_name(calibration_certificates(predictions), "4.1 (i)")
    assert (first.bound, first.measured) == pytest.approx((moment, sum(missing) / 2))
    assert by_name(calibration_certificates(predictions), "4.2 (i): ECE").bound == pytest.approx(math.exp(-1))


def test_a_millionth_of_a_millionth_is_not_lost() -> None:
    """At a margin of 60 the confidence is 1 in float64; the certificates still see what is missing."""
    predictions = Predictions(torch.tensor([[60.0, 0.0, 0.0]]), torch.tensor([0]))
    assert float(ece(predictions)) == 0
    assert exact_ece(predictions) == pytest.approx(2 * math.exp(-60), rel=1e-12)
    for item in calibration_certificates(predictions):
        assert item.holds
    assert by_name(calibration_certificates(predictions), "ours").slack == pytest.approx(1)


@CASES
@settings(max_examples=50, deadline=None)
def test_the_ece_is_the_metrics_own(seed: int, n: int, k: int, spread: float, right: bool) -> None:
    predictions = drawn(seed, n=n, k=k, spread=spread, right=right)
    assert exact_ece(predictions) == pytest.approx(float(ece(predictions)), abs=1e-12)
    one = exact_ece(predictions, num_bins=1)
    if right and n > 1 and float(predictions.margin.min()) > 0:
        assert exact_ece(predictions, num_bins=50) == pytest.approx(one, rel=1e-9)


def test_the_tail() -> None:
    margin = torch.cat([torch.full((99,), 5.0), torch.tensor([-50.0])])
    found = tail(margin)
    assert found.shares[0.01] == pytest.approx(1)
    assert found.worst[0] == 99
    assert not found.interpolating
    assert found.log_moment == pytest.approx(50 - math.log(100))
    even = tail(torch.full((100,), 2.0))
    assert even.interpolating
    assert even.shares == pytest.approx({0.01: 0.01, 0.05: 0.05, 0.1: 0.1})
    assert tail(torch.tensor([-800.0])).log_moment == 800
    with pytest.raises(ValueError, match="`worst`"):
        tail(margin, worst=(0.0,))


def test_deciles_by_margin() -> None:
    predictions = drawn(3, n=50, k=3, spread=4.0, right=False)
    parts = ece_by_decile(predictions, predictions.margin)
    assert len(parts) == 10
    assert [mean for mean, _ in parts] == sorted(mean for mean, _ in parts)
    worst = predictions.margin.argsort()[:5]
    gap = (predictions.confidence - predictions.correct.double())[worst].mean().abs()
    assert parts[0][1] == pytest.approx(float(gap))


def test_the_predicted_margin_ignores_labels() -> None:
    predictions = Predictions(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([2]))
    assert predicted_margin(predictions).tolist() == [2.0]
    assert predictions.margin.tolist() == [-3.0]


def test_a_tiny_sample_does_not_hide_one_that_fails() -> None:
    measured, bound = torch.tensor([2e-20, 1.01]).double().log(), torch.tensor([1e-20, 1.0]).double().log()
    found = worst_of("x", log_measured=measured, log_bound=bound)
    assert found.verdict == "fails"
    assert found.measured == pytest.approx(1.01)
    assert worst_of("x", log_measured=measured[:1], log_bound=bound[:1]).holds


def test_verdicts() -> None:
    assert certificate("x", measured=1.0, bound=1.0).holds
    assert certificate("x", measured=1.0 + 1e-6, bound=1.0).holds is False
    assert certificate("x", measured=2.0, bound=1.0, unmet=("no",)).holds is None
    assert certificate("x", measured=0.0, bound=0.0).slack == math.inf
