"""Losses and objectives that remember."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from references.golden import GOLDEN, inputs
from surefoot.losses import CRL, AdaFocal, Batch, CrossEntropy, Focal, Lifted, Remembering, memory_of
from surefoot.predictions import Predictions


def predictions(n: int = 200, seed: int = 0) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return Predictions(logits, torch.randint(4, (n,), generator=generator))


class Given(nn.Module):
    """Says the same logits whatever comes in."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, _: Tensor) -> Tensor:
        return self.logits


def batch(labels: Tensor, indices: Tensor | None = None) -> Batch:
    return Batch(torch.zeros(len(labels), 1), labels, torch.arange(len(labels)) if indices is None else indices)


def test_adafocal_moves_its_exponents_as_worked_out_elsewhere() -> None:
    trace = GOLDEN["adafocal"]["update_rule_trace"]
    loss, gamma = AdaFocal(), torch.tensor([trace["gamma0"]], dtype=torch.float64)
    found = [gamma.item()]
    for gap in trace["E_t = conf-acc of the bin"]:
        gamma = loss.moved(gamma, torch.tensor([gap], dtype=torch.float64))
        found.append(gamma.item())
    assert found == pytest.approx(trace["gammas"], abs=1e-7)
    for name, wanted in GOLDEN["adafocal"]["clip_cases"].items():
        before, gap = (float(part) for part in name.removeprefix("gamma").split("_E"))
        moved = loss.moved(torch.tensor([before]).double(), torch.tensor([gap]).double())
        assert moved.item() == pytest.approx(wanted, abs=1e-7)


def test_adafocal_with_one_exponent() -> None:
    golden = GOLDEN["adafocal"]
    logits, labels = inputs("A")
    assert AdaFocal(first=2.5)(logits, labels).item() == pytest.approx(golden["A_gamma2.5"], abs=1e-7)
    inverse = golden["A_gamma-0.7 (inverse focal (1+p)^0.7)"]
    assert AdaFocal(first=-0.7)(logits, labels).item() == pytest.approx(inverse, abs=1e-7)
    torch.testing.assert_close(AdaFocal(first=3.0)(*inputs("E")), Focal(3.0)(*inputs("E")))


def test_adafocal_takes_the_exponent_of_the_bin_of_the_true_class() -> None:
    loss = AdaFocal(num_bins=4)
    loss.edges = torch.tensor([0.3, 0.5, 0.5, 0.8, 0.9], dtype=torch.float64)  # one bin is empty
    loss.gammas = torch.tensor([1.0, 2.0, 3.0, -1.0], dtype=torch.float64)
    p = torch.tensor([0.05, 0.49, 0.5, 0.79, 0.8, 0.99], dtype=torch.float64)
    logits = torch.stack([p.log(), (1 - p).log()], dim=1)
    wanted = torch.tensor([1.0, 1.0, 3.0, 3.0, -1.0, -1.0])  # below the first edge the first, above the last the last
    values = [-((1 - q) ** g) * q.log() if g > 0 else -(1 + q) * q.log() for q, g in zip(p, wanted, strict=True)]
    torch.testing.assert_close(loss(logits, torch.zeros(6).long()), torch.stack(values))


def test_adafocals_bins_and_gaps_by_a_loop_over_bins() -> None:
    held = predictions()
    loss = AdaFocal(num_bins=7, rate=0.5)
    loss.after_epoch(held)
    confidence, correct = held.confidence.numpy(), held.correct.numpy()
    edges = np.interp(np.linspace(0, 200, 8), np.arange(200), np.sort(confidence))
    gammas = []
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        gammas.append(np.exp(0.5 * (confidence[inside].mean() - correct[inside].mean())))
    np.testing.assert_allclose(loss.edges, edges)
    np.testing.assert_allclose(loss.gammas, gammas)
    assert loss.gammas.std() > 0.01
    alike = Predictions(torch.zeros(5, 3), torch.zeros(5).long())
    loss.after_epoch(alike)  # all confidences alike: every bin is empty
    np.testing.assert_allclose(loss.gammas, gammas)
    assert loss(*inputs("B")).isfinite().all()


def test_adafocal_says_that_it_needs_validation() -> None:
    with pytest.raises(ValueError, match="AdaFocal needs a validation split"):
        AdaFocal().after_epoch(None)


def of(counts: list[int], num_passes: int) -> CRL:
    loss = CRL(num_samples=len(counts))
    loss.counts, loss.num_passes = torch.tensor(counts), num_passes
    return loss


def test_crl_as_worked_out_elsewhere() -> None:
    golden = GOLDEN["crl"]
    logits, labels = inputs("B")
    loss = of([int(count) for count in golden["history_correctness_counts"]], golden["max_correctness"])
    values = loss(Given(logits), batch(labels))
    ranks = values - CrossEntropy()(logits, labels)
    wanted = torch.tensor(golden["per_pair"], dtype=torch.float64)
    torch.testing.assert_close(ranks, wanted, rtol=0, atol=1e-7)
    assert ranks.mean().item() == pytest.approx(golden["ranking_loss_mean"], abs=1e-7)
    assert values.mean().item() == pytest.approx(golden["total_CE+1.0*rank"], abs=1e-7)


def test_crl_of_the_second_case_and_no_slope_where_counts_are_equal() -> None:
    golden = GOLDEN["crl_case2"]
    loss = of([*golden["counts"], golden["min"]], golden["max_correctness"])  # a fifth sample has the least
    scores = torch.tensor(golden["confidence"], dtype=torch.float64, requires_grad=True)
    ranks = loss.ranking(scores, torch.arange(4))
    torch.testing.assert_close(ranks, torch.tensor(golden["per_pair"]).double(), rtol=0, atol=1e-7)
    assert ranks.mean().item() == pytest.approx(golden["mean"], abs=1e-7)
    (slope,) = torch.autograd.grad(ranks[1], scores, retain_graph=True)  # 2 and 2
    assert not slope.any()
    (slope,) = torch.autograd.grad(ranks[0], scores)
    assert slope.tolist() == [-1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("counts", "passes"), [([2, 2, 2], 2), ([0, 0, 0], 3), ([1, 1, 2], 1), ([0, 0, 0], 0)])
def test_crl_without_anything_to_rank_is_cross_entropy(counts: list[int], passes: int) -> None:
    logits, labels = (part[:3] for part in inputs("B"))
    model = Given(logits)
    values = of(counts, passes)(model, batch(labels))
    torch.testing.assert_close(values, CrossEntropy()(logits, labels))
    values.mean().backward()
    assert model.logits.grad is not None
    assert model.logits.grad.isfinite().all()


def test_crl_counts_what_was_right_after_each_step_and_knows_no_rank_of_strangers() -> None:
    logits, labels = inputs("B")  # right, wrong, right, wrong
    loss = CRL(num_samples=6)
    for _ in range(2):
        loss.after_step(batch(labels, torch.tensor([5, 0, 3, 1])), logits)
        loss.after_epoch(None)
    assert loss.counts.tolist() == [0, 0, 0, 2, 0, 2]
    strangers = loss(Given(logits), batch(labels, torch.full((4,), -1)))
    torch.testing.assert_close(strangers, CrossEntropy()(logits, labels))


@pytest.mark.parametrize("score", ["confidence", "margin", "entropy"])
def test_scores_of_crl(score: Any) -> None:
    logits, _ = inputs("A")
    p = logits.softmax(dim=1)[0]
    by_hand = {
        "confidence": p[0],
        "margin": p[0] - p[1],
        "entropy": 1 + (p * p.log()).sum() / torch.tensor(3.0).double().log(),
    }
    torch.testing.assert_close(CRL(num_samples=1, score=score)._score(logits)[0], by_hand[score])


@pytest.mark.parametrize("make", [lambda: AdaFocal(num_bins=5), lambda: CRL(num_samples=8)])
def test_what_is_remembered_round_trips(make: Any) -> None:
    logits, labels = inputs("B")
    first, second = make(), make()
    assert isinstance(first, Remembering)
    first.after_step(batch(labels), logits)
    first.after_epoch(predictions())
    second.load_state_dict(first.state_dict())
    for key, value in first.state_dict().items():
        torch.testing.assert_close(second.state_dict()[key], value, rtol=0, atol=0)
    first.after_epoch(predictions(seed=1))
    first.after_step(batch(labels), logits)
    assert str(second.state_dict()) != str(first.state_dict())  # nothing is shared
    with pytest.raises(ValueError, match="The state"):
        (AdaFocal(num_bins=4) if isinstance(first, AdaFocal) else CRL(num_samples=9)).load_state_dict(
            first.state_dict()
        )


def test_who_remembers() -> None:
    loss = AdaFocal()
    assert memory_of(Lifted(loss)) is loss
    assert memory_of(Lifted(CrossEntropy())) is None
    ranking = CRL(num_samples=1)
    assert memory_of(ranking) is ranking


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaFocal(num_bins=0), "`num_bins` must be at least 1"),
        (lambda: AdaFocal(rate=-1.0), "`rate` must be at least 0"),
        (lambda: AdaFocal(switch=0.0), "`switch` must be positive"),
        (lambda: AdaFocal(lowest=0.0), "`lowest` and `highest` must lie around"),
        (lambda: AdaFocal(first=0.0), "`first` must lie in"),
        (lambda: AdaFocal(first=30.0), "`first` must lie in"),
        (lambda: CRL(num_samples=0), "`num_samples` must be at least 1"),
        (lambda: CRL(num_samples=1, strength=-1.0), "`strength` must be at least 0"),
        (lambda: CRL(num_samples=1, score="x"), "`score` must be"),  # type: ignore[arg-type]
    ],
)
def test_options_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
