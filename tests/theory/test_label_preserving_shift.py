import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from references.robust import brute_bottleneck
from surefoot.attack import Norm, worst_shift
from surefoot.metrics import ece
from surefoot.models import MLP
from surefoot.predictions import Predictions
from surefoot.theory import Shift, certified_on_shift, robust_margin_floor, smallest_shift
from surefoot.theory._bottleneck_matching import bottleneck

NORMS: list[Norm] = ["l2", "linf"]


def cloud(num_samples: int, num_features: int = 2, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_samples, num_features, dtype=torch.float64, generator=generator)


def same_class(a: Tensor, b: Tensor, norm: Norm) -> float:
    zeros = torch.zeros(len(a) + len(b), dtype=torch.int64)
    return smallest_shift(a, zeros[: len(a)], b, zeros[: len(b)], norm=norm).eps


@given(st.integers(0, 10_000), st.integers(1, 6), st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_bottleneck_is_the_best_permutation(seed: int, size: int, hub: bool, ties: bool) -> None:
    distances = torch.rand(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if hub:  # near to everything, so that no one's nearest says how far the others must go
        distances[0] /= 100
        distances[:, 0] /= 100
    if ties:
        distances = (4 * distances).floor()
    assert bottleneck(distances.numpy()) == brute_bottleneck(distances)


@given(st.integers(0, 10_000), st.sampled_from([(1, 3), (2, 4), (2, 3), (3, 6), (4, 2)]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_unequal_sizes_are_matched_as_if_repeated(seed: int, sizes: tuple[int, int], ties: bool) -> None:
    distances = torch.rand(*sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if ties:
        distances = (4 * distances).floor()
    whole = math.lcm(*sizes)
    repeated = distances.repeat_interleave(whole // sizes[0], 0).repeat_interleave(whole // sizes[1], 1)
    assert bottleneck(distances.numpy()) == brute_bottleneck(repeated)


def test_the_nearest_neighbour_is_not_enough() -> None:
    distances = np.array([[0.0, 5.0], [1.0, 7.0]])  # both rows want the first column
    assert bottleneck(distances) == 5.0


@pytest.mark.parametrize(("norm", "order"), [("l2", 2.0), ("linf", math.inf)])
def test_takes_the_worst_class_in_the_norm_asked_for(norm: Norm, order: float) -> None:
    train, test = cloud(10, 3), cloud(10, 3, seed=1)
    labels = torch.tensor([0, 1, 1, 0, 2, 0, 1, 1, 0, 0])
    shuffled = labels[torch.tensor([3, 1, 0, 2, 4, 6, 5, 9, 8, 7])]
    found = smallest_shift(train, labels, test, shuffled, norm=norm)
    pairs = [torch.cdist(train[labels == c], test[shuffled == c], p=order) for c in range(3)]
    by_class = [brute_bottleneck(pair) for pair in pairs]
    assert found.marginals_match
    assert found.norm == norm
    assert found.eps == pytest.approx(max(by_class), rel=1e-13)
    assert found.eps >= max(by_class)


@pytest.mark.parametrize("norm", NORMS)
def test_is_a_distance_of_sets(norm: Norm) -> None:
    a, b, c = cloud(6), cloud(6, seed=1), cloud(6, seed=2)
    assert same_class(a, a[torch.randperm(6)], norm) == 0
    assert same_class(a, b, norm) == same_class(b, a, norm) > 0
    assert same_class(a, c, norm) <= same_class(a, b, norm) + same_class(b, c, norm)
    assert same_class(a, torch.cat([b, b]), norm) == same_class(a, b, norm)
    moved = same_class(a, a + torch.tensor([0.3, 0.4], dtype=torch.float64) / 100, norm)
    assert moved == pytest.approx({"l2": 0.005, "linf": 0.004}[norm])


def test_is_exact_for_points_far_from_zero() -> None:
    a = 1e6 + cloud(40, 30)  # where distances by inner products lose all digits
    b = a[torch.randperm(40)].clone()
    b[:, 0] += 2.0**-20
    assert same_class(a, b, "l2") == pytest.approx(2.0**-20, rel=1e-6)


def test_shapes_of_images_are_flattened() -> None:
    a, b = cloud(4, 12), cloud(4, 12, seed=1)
    assert same_class(a.view(4, 3, 2, 2), b.view(4, 3, 2, 2), "l2") == same_class(a, b, "l2")


@pytest.mark.parametrize(
    ("train", "test", "match"),
    [
        ([0, 0, 1], [0, 1, 1], False),
        ([0, 1], [0, 0, 1], False),
        ([0, 1], [0, 0, 1, 1], True),
        ([0, 1, 1], [1, 1, 0], True),
        ([0, 1], [0, 1, 2], False),
        ([0, 1, 2], [0, 1], False),
        ([0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 1], True),
    ],
)
def test_marginals_are_compared_as_fractions(train: list[int], test: list[int], match: bool) -> None:
    found = smallest_shift(
        cloud(len(train)), torch.tensor(train), cloud(len(test), seed=1), torch.tensor(test), norm="l2"
    )
    assert found.marginals_match is match
    assert math.isfinite(found.eps) is match


def trained() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = MLP(input_shape=(2,), num_classes=3, widths=(16,)).double()
    labels = torch.arange(60) % 3
    inputs = 0.3 * cloud(60) + torch.tensor([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]]).double()[labels]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model, inputs, labels


def measured_ece(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float(ece(Predictions(model(inputs), labels)))


@pytest.mark.parametrize("norm", NORMS)
def test_the_corollary_holds_on_the_worst_shift(norm: Norm) -> None:
    model, inputs, labels = trained()
    radius = 0.2
    test = worst_shift(model, inputs, labels, radius=radius, norm=norm).inputs
    shift = smallest_shift(inputs, labels, test, labels, norm=norm)
    value = measured_ece(model, test, labels)
    found = certified_on_shift(model, inputs, labels, shift, radius=radius, test_ece=value)
    assert found.verdict == "holds"
    floor = robust_margin_floor(model, inputs, labels, radius=radius, norm=norm)
    assert found.bound == pytest.approx(2 * float((-floor).exp().mean()))
    assert found.measured == value
    assert found.bound < 1  # it says something
    clean = Predictions(model(inputs).detach(), labels)
    assert found.bound > 2 * float((-clean.margin).exp().mean())


def test_says_which_assumption_is_not_met() -> None:
    model, inputs, labels = trained()

    def judged(shift: Shift, model: nn.Module = model) -> Any:
        return certified_on_shift(model, inputs, labels, shift, radius=0.1, test_ece=0.9)

    assert judged(Shift(True, 0.1, "l2")).verdict == "fails"  # no test set at this distance has such an error
    far = judged(Shift(True, 0.2, "l2"))
    assert far.verdict == "assumption not met"
    assert far.assumptions == ("the test set is 0.2 from the training set, further than 0.1",)
    assert far.holds is None
    different = judged(Shift(False, math.inf, "l2"))
    assert different.assumptions == ("the labels' shares of test and training set differ",)
    unproved = nn.Sequential(model, nn.Dropout(0.5).eval())
    attacked = judged(Shift(True, 0.1, "l2"), unproved)
    assert attacked.verdict == "assumption not met"
    assert len(attacked.assumptions) == 1
    assert "attack only: not a proof" in attacked.assumptions[0]
    assert attacked.bound < judged(Shift(True, 0.1, "l2")).bound  # the attack's number is no bound
    assert unproved.training
    assert len(judged(Shift(True, 0.2, "l2"), unproved).assumptions) == 2


def test_a_test_set_that_is_no_shift_can_break_the_bound() -> None:
    model, inputs, labels = trained()
    others = labels.roll(1)  # the same inputs with other labels: no coupling keeps them
    shift = smallest_shift(inputs, labels, inputs, others, norm="l2")
    value = measured_ece(model, inputs, others)
    found = certified_on_shift(model, inputs, labels, shift, radius=0.1, test_ece=value)
    assert found.verdict == "assumption not met"
    assert found.measured > found.bound
    assert "further than 0.1" in found.assumptions[0]


def test_a_bound_may_be_astronomic() -> None:
    model = nn.Sequential(nn.Linear(1, 2, bias=False)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[-1000.0], [0.0]]))
    inputs, labels = torch.ones(2, 1, dtype=torch.float64), torch.tensor([0, 0])
    found = certified_on_shift(model, inputs, labels, Shift(True, 0.0, "l2"), radius=0.0, test_ece=0.5)
    assert found.bound == math.inf
    assert found.verdict == "holds"


def test_bad_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = cloud(3), torch.tensor([0, 1, 1])
    with pytest.raises(ValueError, match=r"Unknown norm 'l22'. Did you mean 'l2'"):
        smallest_shift(x, y, x, y, norm="l22")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`test_inputs` must have 2 features like the training inputs, got 3"):
        smallest_shift(x, y, cloud(3, 3), y, norm="l2")
    with pytest.raises(ValueError, match=r"`train_inputs` must be finite of shape \[3, ...\], got shape \[2, 2\]"):
        smallest_shift(x[:2], y, x, y, norm="l2")
    with pytest.raises(ValueError, match=r"`test_inputs` must be finite .* with NaN or inf"):
        smallest_shift(x, y, x / 0, y, norm="l2")
    with pytest.raises(ValueError, match="`test_labels` must be integers of shape"):
        smallest_shift(x, y, x, y.double(), norm="l2")
    with pytest.raises(ValueError, match=r"`test_ece` must lie in \[0, 1\], got 1.5"):
        certified_on_shift(nn.Linear(2, 2), x, y, Shift(True, 0.0, "l2"), radius=0.1, test_ece=1.5)
    with pytest.raises(ValueError, match="`radius` must be at least 0 and finite, got -1"):
        certified_on_shift(nn.Sequential(nn.Linear(2, 2)), x, y, Shift(True, 0.0, "l2"), radius=-1.0, test_ece=0.5)
    monkeypatch.setattr("surefoot.theory.label_preserving_shift._MOST_PER_CLASS", 1)
    with pytest.raises(ValueError, match="`train_inputs` must hold at most 1 samples per class, got 2 of class 1"):
        smallest_shift(x, y, x, y, norm="l2")
