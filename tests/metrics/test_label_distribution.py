import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from references.slow import softmax
from surefoot.metrics import accuracy, ece, nll, vote_accuracy, vote_ece, vote_intervals, vote_kl, vote_nll
from surefoot.metrics._intervals._interval import IntervalOptions
from surefoot.predictions import Predictions

DATA = Path(os.environ.get("SUREFOOT_DATA", ""))


def drawn(n: int, seed: int, *, classes: int = 4, voters: int = 20) -> tuple[Predictions, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    truth = (0.7 * logits).softmax(dim=1)
    votes = torch.multinomial(truth, voters, replacement=True, generator=generator)
    counts = torch.zeros(n, classes, dtype=torch.int64).scatter_add_(1, votes, torch.ones_like(votes))
    return Predictions(logits, votes[:, 0]), counts


def slow(logits: Tensor, counts: Tensor, num_bins: int) -> dict[str, float]:
    rows = []
    for row, votes in zip(logits.tolist(), counts.tolist(), strict=True):
        p, q = softmax(row), [vote / sum(votes) for vote in votes]
        best = p.index(max(p))
        cross = -sum(q[k] * math.log(p[k]) for k in range(len(p)) if q[k] > 0)
        kl = sum(q[k] * math.log(q[k] / p[k]) for k in range(len(p)) if q[k] > 0)
        rows.append((p[best], q[best], cross, kl))
    n = len(rows)
    gap = 0.0
    for b in range(num_bins):
        inside = [(c, a) for c, a, _, _ in rows if b / num_bins < c <= (b + 1) / num_bins]
        gap += abs(sum(c - a for c, a in inside)) / n
    agree, cross, kl = (sum(row[k] for row in rows) / n for k in (1, 2, 3))
    return {"vote_accuracy": agree, "vote_ece": gap, "vote_nll": cross, "vote_kl": kl}


@pytest.mark.parametrize("num_bins", [1, 10, 15])
def test_against_the_definition_one_sample_at_a_time(num_bins: int) -> None:
    predictions, counts = drawn(300, 0)
    wanted = slow(predictions.logits, counts, num_bins)
    found = vote_intervals(predictions, counts, IntervalOptions(num_bins=num_bins))
    assert {name: each.value for name, each in found.items()} == pytest.approx(wanted, rel=1e-12)
    assert vote_accuracy(predictions, counts).item() == pytest.approx(wanted["vote_accuracy"])
    assert vote_ece(predictions, counts, num_bins=num_bins).item() == pytest.approx(wanted["vote_ece"])
    assert vote_nll(predictions, counts).item() == pytest.approx(wanted["vote_nll"])
    assert vote_kl(predictions, counts).item() == pytest.approx(wanted["vote_kl"])


def test_by_hand() -> None:
    probabilities = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64)
    predictions = Predictions.from_probabilities(probabilities, torch.tensor([0, 0]))
    counts = torch.tensor([[3, 1], [4, 0]])
    assert vote_accuracy(predictions, counts).item() == pytest.approx(0.875)
    assert vote_ece(predictions, counts).item() == pytest.approx(0.25)
    assert vote_nll(predictions, counts).item() == pytest.approx((math.log(2) - math.log(0.75)) / 2)
    kl = 0.75 * math.log(1.5) + 0.25 * math.log(0.5) - math.log(0.75)
    assert vote_kl(predictions, counts).item() == pytest.approx(kl / 2)


def test_unanimous_votes_are_labels() -> None:
    predictions, _ = drawn(500, 1)
    counts = 7 * torch.nn.functional.one_hot(predictions.labels, 4)
    torch.testing.assert_close(vote_accuracy(predictions, counts), accuracy(predictions))
    torch.testing.assert_close(vote_ece(predictions, counts), ece(predictions))
    torch.testing.assert_close(vote_nll(predictions, counts), nll(predictions))
    torch.testing.assert_close(vote_kl(predictions, counts), nll(predictions))


def test_predictions_that_are_the_votes_have_no_error() -> None:
    predictions, counts = drawn(200, 2)
    exact = Predictions.from_probabilities(counts / counts.sum(dim=1, keepdim=True), predictions.labels)
    found = vote_intervals(exact, counts, IntervalOptions())
    assert found["vote_kl"].value == pytest.approx(0, abs=1e-6)
    assert found["vote_ece"].value == pytest.approx(0, abs=1e-6)


def test_a_class_with_votes_that_was_given_nothing_is_infinite() -> None:
    predictions = Predictions.from_probabilities(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([0, 0]))
    found = vote_intervals(predictions, torch.tensor([[1, 1], [1, 1]]), IntervalOptions())
    assert found["vote_nll"].value == math.inf
    assert "1 samples" in found["vote_nll"].method
    sure = vote_intervals(predictions, torch.tensor([[2, 0], [1, 1]]), IntervalOptions())
    assert sure["vote_nll"].value == pytest.approx(math.log(2) / 2)


def test_order_does_not_matter() -> None:
    predictions, counts = drawn(200, 3)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    mixed = Predictions(predictions.logits[order], predictions.labels[order])
    for measure in (vote_accuracy, vote_ece, vote_nll, vote_kl):
        torch.testing.assert_close(measure(mixed, counts[order]), measure(predictions, counts))


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    whole, counts = drawn(400_000, 4)
    truth = {name: each.value for name, each in vote_intervals(whole, counts, IntervalOptions()).items()}
    hits = dict.fromkeys(truth, 0)
    rounds, size = 300, 600
    for k in range(rounds):
        rows = slice(k * size, (k + 1) * size)
        found = vote_intervals(whole[rows], counts[rows], IntervalOptions(level=0.9, num_replicates=200))
        for name, each in found.items():
            hits[name] += each.low <= truth[name] <= each.high
    spread = 3.5 * math.sqrt(0.09 / rounds)
    for name, count in hits.items():
        assert count / rounds > 0.9 - spread, name
        assert count / rounds < 0.9 + spread or name == "vote_ece"  # whose limits may be generous


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (torch.ones(3, 2), r"must have the shape \[2, 2\] of the predictions, got \[3, 2\]"),
        (torch.ones(2, 3), r"got \[2, 3\]"),
        (torch.tensor([[1, 1], [0, 0]]), "must have votes for every sample, got none in row 1"),
        (torch.tensor([[2, -1], [1, 1]]), "must be finite and at least 0"),
        (torch.tensor([[1.0, math.nan], [1, 1]]), "must be finite and at least 0"),
        (torch.ones(2, 2, dtype=torch.bool), r"must be numbers of votes, got torch\.bool"),
    ],
)
def test_bad_counts_are_refused(counts: Tensor, message: str) -> None:
    predictions = Predictions(torch.zeros(2, 2), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=message):
        vote_accuracy(predictions, counts)


@pytest.mark.parametrize("name", ["resnet20", "resnet56"])
def test_cifar10h(name: str) -> None:
    if not (DATA / "cifar10h_counts.npz").is_file() or not (DATA / "cifar10_resnet_logits.npz").is_file():
        pytest.skip("SUREFOOT_DATA does not name a folder with cifar10h_counts.npz and cifar10_resnet_logits.npz")
    with np.load(DATA / "cifar10_resnet_logits.npz") as file:
        predictions = Predictions(torch.from_numpy(file[name]), torch.from_numpy(file["y"]))
    with np.load(DATA / "cifar10h_counts.npz") as file:
        counts = torch.from_numpy(file["counts"].astype(np.int64))
    assert (counts.argmax(dim=1) == predictions.labels).double().mean() > 0.99  # both in the canonical order
    found = vote_intervals(predictions, counts, IntervalOptions())
    wanted = slow(predictions.logits.double(), counts, 15)
    assert {key: each.value for key, each in found.items()} == pytest.approx(wanted, rel=1e-9)
    for each in found.values():
        assert each.low < each.value < each.high
    assert found["vote_accuracy"].value < accuracy(predictions).item()  # people disagree where the label is sure
