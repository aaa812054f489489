import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from surefoot.data import Split, digits
from surefoot.losses import Batch, CrossEntropy, Lifted, Objective
from surefoot.models import MLP
from surefoot.theory import ascent
from surefoot.training import snapshot as module
from surefoot.training.observers import CurvatureObserver, HessianObserver, SamTheoryObserver, ScoresObserver
from surefoot.training.observers.sam_theory import straightness
from surefoot.training.snapshot import Snapshot

DATA = digits(num_train=90)
SPLITS = {"train": DATA.train}


def network() -> nn.Module:
    torch.manual_seed(0)
    return MLP(input_shape=(64,), num_classes=10, widths=(8,))


class Plain:
    """Cross-entropy as an objective that is not known to be a loss of logits."""

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        assert int(batch.indices[0]) % 40 == 0
        return CrossEntropy()(model(batch.inputs), batch.labels)


@pytest.mark.parametrize("objective", [Lifted(CrossEntropy()), Plain()])
def test_a_split_in_parts_is_the_split_at_once(monkeypatch: pytest.MonkeyPatch, objective: Objective) -> None:
    whole = Snapshot(0, network(), objective, SPLITS)
    wanted = whole.logits("train"), whole.loss("train")
    monkeypatch.setattr(module, "_AT_ONCE", 40)
    parts = Snapshot(0, network(), objective, SPLITS)
    torch.testing.assert_close(parts.logits("train"), wanted[0])
    assert parts.loss("train") == pytest.approx(wanted[1], rel=1e-6)


def test_on_a_cpu_parts_of_large_inputs_stay_in_its_cache() -> None:
    convolving, dense = nn.Sequential(nn.Conv2d(3, 4, 3)), nn.Sequential(nn.Flatten(), nn.Linear(3072, 4))
    assert module.at_once(convolving, torch.zeros(1, 3, 4, 4)) == 2000
    assert module.at_once(convolving, torch.zeros(1, 3, 32, 32)) == 85
    assert module.at_once(convolving, torch.zeros(1, 3, 224, 224)) == 16
    assert module.at_once(convolving, torch.zeros(1, 3, 32, 32, device="meta")) == 2000
    assert module.at_once(dense, torch.zeros(1, 3, 32, 32)) == 2000


def test_scores_of_a_split_that_is_all_right_or_all_wrong_leave_the_auroc_empty() -> None:
    model = network()
    said = model(DATA.train.inputs).argmax(dim=1)
    for labels, empty in ((said, True), ((said + 1) % 10, True), (DATA.train.labels, False)):
        split = Split(DATA.train.inputs, labels)
        row = ScoresObserver()(Snapshot(0, model, Lifted(CrossEntropy()), {"train": split}))
        assert math.isnan(row["train/auroc_correct"]) == empty
        assert math.isfinite(row["train/brier"])


@pytest.mark.parametrize("kind", [CurvatureObserver, HessianObserver])
def test_curvature_of_some_samples_is_that_of_a_split_of_them(kind: Callable[..., CurvatureObserver]) -> None:
    seen = Snapshot(0, network(), Lifted(CrossEntropy()), SPLITS)
    order = torch.randperm(90, generator=torch.Generator().manual_seed(0))[:30].sort().values
    few = Split(DATA.train.inputs[order], DATA.train.labels[order])
    name = kind.quantities[0]
    some, wanted = kind(num_samples=30)(seen), kind()(replace(seen, splits={"train": few}))
    assert some[f"train/{name}"] == wanted[f"train/{name}"]
    assert kind(num_samples=900)(seen) == kind()(seen)
    assert some != kind()(seen)
    with pytest.raises(ValueError, match="`num_samples` must be at least 1"):
        kind(num_samples=0)


@pytest.mark.parametrize("kind", [CurvatureObserver, HessianObserver])
def test_curvature_can_wait_for_the_end(kind: Callable[..., CurvatureObserver]) -> None:
    seen = Snapshot(0, network(), Lifted(CrossEntropy()), SPLITS)
    assert kind(at="end")(seen) == {}
    assert kind(at="end")(replace(seen, last=True)) == kind()(seen)
    with pytest.raises(ValueError, match="`at` must be end or every"):
        kind(at="sometimes")


def test_a_climb_may_be_on_another_sample_at_each_step() -> None:
    seen = Snapshot(7, network(), Lifted(CrossEntropy()), SPLITS)
    places = slice(7, 8)
    alone = replace(seen, splits={"train": Split(DATA.train.inputs[places], DATA.train.labels[places])})
    moving = SamTheoryObserver(num_samples=1, moving=True)
    assert moving(seen) == SamTheoryObserver(num_samples=1)(alone)
    assert moving(seen) != SamTheoryObserver(num_samples=1)(seen)
    assert moving(replace(seen, step=97)) == moving(seen)  # of 90 samples


def test_the_smallest_eigenvalue_where_a_climb_starts_and_ends() -> None:
    row = SamTheoryObserver()(Snapshot(0, network(), Lifted(CrossEntropy()), SPLITS))
    assert row["train/sam_kappa_min"] == min(row["train/sam_kappa_start"], row["train/sam_kappa_end"])
    assert 0 <= row["train/sam_kappa_line"] <= 1
    climb = ascent(network(), DATA.train.inputs[:64], DATA.train.labels[:64], rho=0.05, num_points=2)
    lowered = sum(after > before for before, after in zip(climb.losses, climb.perturbed_losses, strict=True))
    assert row["train/sam_lowered"] == int(lowered) / 64
    assert 0 < lowered < 64
    assert straightness(torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.0, 1.0, 0.0])) == 0
    assert math.isnan(straightness(torch.tensor([0.0, 0.5, 1.0]), torch.ones(3)))
