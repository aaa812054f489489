import math
from bisect import bisect_right
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from surefoot.posthoc import BBQ, Beta, Histogram, Isotonic, Platt
from surefoot.posthoc._one_versus_rest import renormalised, scores
from surefoot.predictions import Predictions


def drawn(k: int = 4, *, n: int = 400, seed: int = 0, coarse: bool = False) -> Predictions:
    """Overconfident predictions; coarse ones have many ties."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    logits = logits.round() if coarse else logits
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return Predictions(2 * logits, labels)


def targets(positive: Tensor) -> Tensor:
    num_positive, num_negative = float(positive.sum()), float((~positive).sum())
    low, high = 1 / (num_negative + 2), (num_positive + 1) / (num_positive + 2)
    return torch.tensor([high if true else low for true in positive.tolist()], dtype=torch.float64)


def joined(calibrated: Tensor, predictions: Predictions) -> Tensor:
    """Renormalised and floored as the maps say they do."""
    floor = 1 / ((predictions.num_samples + 1) * predictions.num_classes)
    total = calibrated.sum(dim=1, keepdim=True)
    return torch.where(total > 0, calibrated / total, predictions.probabilities).clamp(min=floor).log()


@pytest.mark.parametrize("k", [2, 3, 10])
def test_scores_are_logits_of_the_probabilities(k: int) -> None:
    logits = 3 * torch.randn(50, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(scores(logits), torch.logit(logits.softmax(dim=1)), rtol=1e-9, atol=1e-9)


def test_scores_where_probabilities_round_to_one() -> None:
    logits = torch.tensor([[500.0, 0.0, 0.0], [0.0, 0.0, -900.0]], dtype=torch.float64)
    both = math.log(2)
    expected = [[500 - both, -500.0, -500.0], [0.0, 0.0, -900 - both]]
    torch.testing.assert_close(scores(logits), torch.tensor(expected, dtype=torch.float64))


def test_rows_where_every_class_got_nothing_keep_their_probabilities() -> None:
    original = torch.tensor([[0.9, 0.1], [0.9, 0.1]], dtype=torch.float64)
    calibrated = torch.tensor([[0.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
    expected = torch.tensor([[0.9, 0.1], [0.01, 1.0]], dtype=torch.float64).log()
    torch.testing.assert_close(renormalised(calibrated, original, floor=0.01), expected)


@pytest.mark.parametrize("k", [2, 4])
def test_platt_is_stationary(k: int) -> None:
    predictions = drawn(k)
    fitted = Platt.fit(predictions)
    score = scores(predictions.logits)
    for label in range(k):
        slope, offset = fitted.slope[label].clone().requires_grad_(), fitted.offset[label].clone().requires_grad_()
        aim = targets(predictions.labels == label)
        loss = binary_cross_entropy_with_logits(slope * score[:, label] + offset, aim)
        assert all(abs(float(part)) < 1e-9 for part in torch.autograd.grad(loss, (slope, offset)))
    expected = (fitted.slope * score + fitted.offset).sigmoid()
    torch.testing.assert_close(fitted(predictions.logits), expected.log())


def test_the_certificate_is_that_of_the_worst_class() -> None:
    predictions = drawn()
    fitted = Platt.fit(predictions, max_steps=3)
    slopes = []
    for label, score in enumerate(scores(predictions.logits).T):
        residual = (fitted.slope[label] * score + fitted.offset[label]).sigmoid() - targets(predictions.labels == label)
        slopes += [abs(float((residual * score).mean())), abs(float(residual.mean()))]
    assert fitted.fitted.certificate == pytest.approx(max(slopes))


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("flipped", [False, True])
def test_beta_satisfies_the_conditions_of_optimality(k: int, flipped: bool) -> None:
    predictions = drawn(k)
    if flipped:  # then the best a and b are negative without the bound
        predictions = Predictions(-predictions.logits, predictions.labels)
    fitted = Beta.fit(predictions)
    score = scores(predictions.logits)
    for label in range(k):
        a, b, c = (part[label].clone().requires_grad_() for part in (fitted.a, fitted.b, fitted.c))
        outputs = a * logsigmoid(score[:, label]) - b * logsigmoid(-score[:, label]) + c
        loss = binary_cross_entropy_with_logits(outputs, targets(predictions.labels == label))
        for value, slope in zip((a, b, c), torch.autograd.grad(loss, (a, b, c)), strict=True):
            at_bound = value is not c and value.item() == 0
            assert float(slope) > -1e-9 if at_bound else abs(float(slope)) < 1e-9
    assert bool((fitted.a >= 0).all())
    assert bool((fitted.b >= 0).all())
    assert not flipped or bool((fitted.a * fitted.b == 0).all())


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("k", [2, 4])
def test_isotonic_agrees_with_scikit_learn(coarse: bool, k: int) -> None:
    from sklearn.isotonic import IsotonicRegression

    predictions, fresh = drawn(k, coarse=coarse), drawn(k, seed=1)
    fitted = Isotonic.fit(predictions)
    for shown in (predictions, fresh):
        columns = []
        for label in range(k):
            peer = IsotonicRegression(out_of_bounds="clip")
            peer.fit(predictions.probabilities[:, label].numpy(), (predictions.labels == label).numpy())
            columns.append(peer.predict(shown.probabilities[:, label].numpy()))
        calibrated = torch.tensor(np.stack(columns, axis=1)).double()
        floor = 1 / (401 * k)
        expected = (calibrated / calibrated.sum(dim=1, keepdim=True)).clamp(min=floor).log()
        torch.testing.assert_close(fitted(shown.logits), expected, rtol=0, atol=1e-9)


def test_isotonic_keeps_the_probability_of_a_class_without_samples() -> None:
    predictions = drawn()
    fitted = Isotonic.fit(predictions[predictions.labels != 2])
    grid = torch.linspace(0, 1, 7, dtype=torch.float64)
    assert np.interp(grid, fitted.knots[2], fitted.heights[2]) == pytest.approx(grid.tolist())


@pytest.mark.parametrize("num_bins", [1, 4, 15])
def test_histogram_agrees_with_a_loop(num_bins: int) -> None:
    predictions = drawn(3, n=80)
    rows, labels = predictions.probabilities.tolist(), predictions.labels.tolist()
    calibrated = torch.zeros(80, 3, dtype=torch.float64)
    fitted = Histogram.fit(predictions, num_bins=num_bins)
    for label in range(3):
        for b in range(num_bins):
            inside = [i for i in range(80) if b / num_bins < rows[i][label] <= (b + 1) / num_bins]
            rate = sum(labels[i] == label for i in inside) / len(inside) if inside else (b + 0.5) / num_bins
            assert fitted.rates[label, b].item() == pytest.approx(rate)
            calibrated[inside, label] = rate
    torch.testing.assert_close(fitted(predictions.logits), joined(calibrated, predictions))


def test_histogram_bins_are_open_below_and_closed_above() -> None:
    logits = torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 5.0]], dtype=torch.float64)  # p = 1/2 twice
    fitted = Histogram.fit(Predictions(logits, torch.tensor([0, 0, 1])), num_bins=2)
    assert fitted.rates.tolist() == [[2 / 3, 0.75], [0.0, 1.0]]


def test_histogram_refuses() -> None:
    with pytest.raises(ValueError, match="`num_bins` must be at least 1, got 0"):
        Histogram.fit(drawn(), num_bins=0)


def test_histogram_keeps_the_probability_of_a_class_without_samples() -> None:
    predictions = drawn()
    fitted = Histogram.fit(predictions[predictions.labels != 2])
    assert fitted.seen.tolist() == [True, True, False, True]
    calibrated = torch.stack(
        [fitted.rates[k, (15 * predictions.probabilities[:, k]).ceil().long() - 1] for k in range(4)], dim=1
    )
    calibrated[:, 2] = predictions.probabilities[:, 2]
    floor = 1 / ((fitted.fitted.num_samples + 1) * 4)
    expected = (calibrated / calibrated.sum(dim=1, keepdim=True)).clamp(min=floor).log()
    torch.testing.assert_close(fitted(predictions.logits), expected)


def slow_bbq(scores: list[float], positive: list[bool], queries: list[float]) -> list[float]:
    """Naeini et al. 2015, one binning and one bin at a time."""
    n = len(scores)
    ordered, hits = sorted(scores), sorted(score for score, true in zip(scores, positive, strict=True) if true)
    root = n ** (1 / 3)
    total, weights, means = 0.0, [], []
    for num_bins in range(max(1, int(root / 10)), min(math.ceil(n / 5), math.ceil(10 * root)) + 1):
        edges = sorted({ordered[i * n // num_bins - 1] for i in range(1, num_bins)} - {ordered[-1]})
        bounds = [0.0, *edges, 1.0]
        strength = 2 / (len(bounds) - 1)
        log_score, rates = 0.0, []
        for b, (low, high) in enumerate(pairwise(bounds)):
            above = low if b else -1.0  # the first bin is closed at 0
            m, count = (bisect_right(values, high) - bisect_right(values, above) for values in (hits, ordered))
            middle = min(max((low + high) / 2, 2.0**-52), 1 - 2.0**-52)
            alpha, beta = strength * middle, strength * (1 - middle)
            log_score += math.lgamma(strength) - math.lgamma(count + strength)
            log_score += math.lgamma(m + alpha) - math.lgamma(alpha)
            log_score += math.lgamma(count - m + beta) - math.lgamma(beta)
            rates.append((m + alpha) / (count + strength))
        weights.append(log_score)
        between = [(edge + ordered[bisect_right(ordered, edge)]) / 2 for edge in edges]  # to the next score
        means.append([rates[sum(q > cut for cut in between)] for q in queries])
    best = max(weights)
    weights = [math.exp(weight - best) for weight in weights]
    total = sum(weights)
    return [sum(w * m[i] for w, m in zip(weights, means, strict=True)) / total for i in range(len(queries))]


@pytest.mark.parametrize(
    ("n", "coarse"), [(3, False), (60, False), (60, True), (300, False), (300, True), (8100, False)]
)
def test_bbq_agrees_with_a_literal_implementation(n: int, coarse: bool) -> None:
    predictions, fresh = drawn(3, n=n, coarse=coarse), drawn(3, n=20, seed=1)
    fitted = BBQ.fit(predictions)
    shown = torch.cat([predictions.logits[:100], fresh.logits])
    columns = []
    for label in range(3):
        learned = predictions.probabilities[:, label].tolist()
        positive = (predictions.labels == label).tolist()
        columns.append(slow_bbq(learned, positive, shown.softmax(dim=1)[:, label].tolist()))
    calibrated = torch.tensor(columns, dtype=torch.float64).T
    floor = 1 / ((n + 1) * 3)
    expected = (calibrated / calibrated.sum(dim=1, keepdim=True)).clamp(min=floor).log()
    torch.testing.assert_close(fitted(shown), expected, rtol=0, atol=1e-9)


def test_bbq_where_a_bin_holds_nothing_but_zeros() -> None:
    usual = drawn(2, n=100)
    certain = torch.tensor([[1000.0, 0.0]], dtype=torch.float64).expand(50, 2)  # p = 1 and 0, and never wrong
    labels = torch.cat([usual.labels, torch.zeros(50, dtype=torch.long)])
    fitted = BBQ.fit(Predictions(torch.cat([usual.logits, certain]), labels))
    assert fitted(certain[:1]).softmax(dim=1)[0, 0] > 0.95


def test_bbq_does_not_mind_how_logits_round() -> None:
    predictions = drawn(3, n=200)
    shifted = BBQ.fit(predictions)(predictions.logits + 7)
    torch.testing.assert_close(shifted, BBQ.fit(predictions)(predictions.logits))
