"""The loop tells an objective that remembers what happened, and a checkpoint carries it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surefoot.data import Dataset, Split
from surefoot.eval_mode import evaluating
from surefoot.losses import LOSSES, OBJECTIVES, Batch, CrossEntropy, memory_of
from surefoot.optim import CSAM
from surefoot.predictions import Predictions
from surefoot.runs.build import build
from surefoot.runs.spec import RunSpec
from surefoot.training import checkpoint
from surefoot.training.loop import Training, train
from surefoot.training.schedule import Schedule

REMEMBERING = [*OBJECTIVES, *(name for name, make in LOSSES.items() if memory_of(make()) is not None)]

FORGETFUL = ("adversarial", "input_gradient")  # objectives without a history

OPTIONS = {  # so that what they remember makes a difference within a few passes
    "balcal": {"target": 0.5},
    "margin_aware": {"every": 3},
}


def data() -> Dataset:
    def split(n: int, seed: int) -> Split:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(n) % 3
        centres = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])
        return Split(centres[labels] + torch.randn(n, 2, generator=generator), labels)

    return Dataset("blobs", 3, split(22, 0), split(15, 1), validation=split(12, 2))


def make(loss: str, optimizer: str = "sgd", *, observed: bool = True, **options: Any) -> Training:
    spec = RunSpec.from_dict(
        {
            "optimizer": {"name": optimizer, "lr": 0.1, **options},
            "budget": 1,
            "data": {"name": "digits", "num_validation": 1},  # stands for the blobs given
            "loss": {"name": loss, **OPTIONS.get(loss, {})},
            "model": {"name": "mlp", "widths": [8]},
            "batch_size": 8,
            "observers": {"curvature": False} if observed else {"curvature": False, "calibration": False},
        }
    )
    return build(spec, data=data())


def weights(training: Training) -> Tensor:
    return torch.cat([value.double().reshape(-1) for value in training.model.state_dict().values()])


class Recording:
    """Cross-entropy that writes down what it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[Batch, Tensor]] = []
        self.passes: list[Predictions | None] = []

    def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
        return CrossEntropy()(model(batch.inputs), batch.labels)

    def after_step(self, batch: Batch, logits: Tensor) -> None:
        self.steps.append((batch, logits))

    def after_epoch(self, validation: Predictions | None) -> None:
        self.passes.append(validation)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("optimizer", ["sgd", "sam", "bsam"])
def test_what_is_told_and_when(optimizer: str) -> None:
    training = make("cross_entropy", optimizer)
    recording = Recording()
    training.objective, training.descent = recording, None
    for step in range(6):  # two passes of three batches
        batch = training.batches(step)
        with torch.no_grad():
            clean = training.model(batch.inputs)
        training.advance()
        assert len(recording.steps) == step + 1
        told, logits = recording.steps[-1]
        assert torch.equal(told.indices, batch.indices)
        assert not logits.requires_grad
        if optimizer != "bsam":  # which never looks at the mean weights
            assert torch.equal(logits, clean)  # of the first pass, not the one uphill
        assert len(recording.passes) == (step + 1) // 3
    validation = training.splits["validation"]
    with evaluating(training.model), torch.no_grad():
        now = training.model(validation.inputs)
    assert recording.passes[-1] is not None
    assert torch.equal(recording.passes[-1].logits, now)
    assert not training.model._forward_hooks
    training.splits = {"train": training.splits["train"]}
    for _ in range(3):
        training.advance()
    assert recording.passes[-1] is None


def test_the_hook_goes_when_a_step_fails() -> None:
    training = make("crl")

    def broken(model: nn.Module, batch: Batch) -> Tensor:
        model(batch.inputs)
        raise RuntimeError("no luck")

    training.descent = broken
    with pytest.raises(RuntimeError, match="no luck"):
        training.advance()
    assert not training.model._forward_hooks


@pytest.mark.parametrize("loss", [*LOSSES, *OBJECTIVES])
@pytest.mark.parametrize("optimizer", ["sgd", "sam"])
def test_training_with_and_without_observers_gives_the_same_bits(loss: str, optimizer: str) -> None:
    watched, alone = make(loss, optimizer), make(loss, optimizer, observed=False)
    begun, rows = weights(watched), []
    generator = torch.get_rng_state()
    train(watched, budget=14, schedule=Schedule(every=1), record=rows.append)
    train(alone, budget=14, schedule=Schedule(every=100, per_decade=0), record=lambda row: None)
    assert torch.equal(weights(watched), weights(alone))
    assert not torch.equal(weights(watched), begun)
    assert {"train/loss", "test/loss", "validation/loss", "validation/ece"} <= set(rows[-1])
    assert torch.equal(generator, torch.get_rng_state())  # nobody draws from it


@pytest.mark.parametrize("loss", REMEMBERING)
@pytest.mark.parametrize("optimizer", ["sgd", "sam"])
def test_a_checkpoint_holds_what_is_remembered(loss: str, optimizer: str, tmp_path: Path) -> None:
    def rows(pauses: list[int]) -> tuple[list[dict[str, float]], Tensor]:
        training, found = make(loss, optimizer), []
        while not train(
            training,
            budget=24,
            schedule=Schedule(every=2),
            record=found.append,
            between=lambda: training.step not in pauses,  # noqa: B023
        ):
            pauses.remove(training.step)
            checkpoint.save(tmp_path / "c", training)
            torch.manual_seed(99)  # anything may have happened in between
            training = make(loss, optimizer)
            checkpoint.restore(training, checkpoint.read(tmp_path / "c"))
        return found, weights(training)

    steps = 12 if optimizer == "sam" else 24
    (pieces, end), (whole, wanted) = rows([1, 2, 3, 7, steps - 1]), rows([])
    assert pieces == whole
    assert torch.equal(end, wanted)


@pytest.mark.parametrize("loss", [name for name in REMEMBERING if name not in FORGETFUL])
def test_what_is_remembered_matters(loss: str, tmp_path: Path) -> None:
    """The test above could not fail if it did not."""
    training = make(loss)
    for _ in range(8):  # in the midst of the third pass
        training.advance()
    checkpoint.save(tmp_path / "c", training)
    state = checkpoint.read(tmp_path / "c")
    forgetful = make(loss)
    state["objective"] = {}
    checkpoint.restore(forgetful, state)
    for _ in range(9):
        training.advance()
        forgetful.advance()
    assert not torch.equal(weights(training), weights(forgetful))


def test_older_checkpoints_still_load(tmp_path: Path) -> None:
    training = make("cross_entropy")
    training.advance()
    checkpoint.save(tmp_path / "c", training)
    state = checkpoint.read(tmp_path / "c")
    del state["objective"]
    for loss in ("cross_entropy", "adafocal"):
        checkpoint.restore(make(loss), state)


def test_csam_takes_losses_that_remember() -> None:
    training = make("adafocal", "csam")
    assert isinstance(training.optimizer, CSAM)
    for _ in range(4):
        training.advance()
    memory = memory_of(training.objective)
    assert memory is training.optimizer.plain
    assert memory.state_dict()["gammas"].std() > 0
