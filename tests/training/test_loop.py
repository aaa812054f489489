from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from surefoot.data import Split
from surefoot.losses import Batch, CrossEntropy, Lifted
from surefoot.models import MLP
from surefoot.optim import OPTIMIZERS, SAM
from surefoot.runs._build_optimizer import build_optimizer
from surefoot.runs.spec import RunSpec
from surefoot.training import checkpoint
from surefoot.training.batches import Batches
from surefoot.training.loop import Training, train
from surefoot.training.observers import OBSERVERS
from surefoot.training.rates import Cosine
from surefoot.training.schedule import Schedule
from surefoot.training.snapshot import Diverged

# `shift` needs images, `decoupling` needs ReLU: tests of their own
WATCHING = tuple(name for name in OBSERVERS if name not in ("shift", "decoupling"))


def blobs(n: int = 40, seed: int = 0) -> Split:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    centres = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])
    return Split(centres[labels] + torch.randn(n, 2, generator=generator), labels)


def make(
    optimizer: str = "sgd", *, observers: tuple[str, ...] = (), batch_size: int | None = 8, **options: float
) -> Training:
    torch.manual_seed(0)
    model = MLP(input_shape=(2,), num_classes=3, widths=(8, 8))
    spec = RunSpec.from_dict({"optimizer": {"name": optimizer, "lr": 0.1, **options}, "budget": 1})
    stepping = build_optimizer(spec, model, CrossEntropy(), blobs())
    return Training(
        model=model,
        objective=Lifted(CrossEntropy()),
        optimizer=stepping,
        descent=Lifted(stepping.per_sample) if isinstance(stepping, SAM) else None,
        batches=Batches(blobs(), batch_size=batch_size, seed=1),
        splits={"train": blobs(), "test": blobs(seed=1), "validation": blobs(seed=2)},
        observers={name: OBSERVERS[name]() for name in observers},
    )


def weights(training: Training) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in training.model.parameters()])


def go(training: Training, budget: int = 30, every: int = 5) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    assert train(training, budget=budget, schedule=Schedule(every=every, per_decade=0), record=rows.append)
    return rows


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_with_and_without_observers_gives_the_same_bits(optimizer: str) -> None:
    watched = make(optimizer, observers=WATCHING, batch_size=None if optimizer == "gd" else 8)
    alone = make(optimizer, batch_size=None if optimizer == "gd" else 8)
    begun = weights(watched)
    rows = go(watched)
    generator = torch.get_rng_state()
    go(alone)
    assert torch.equal(weights(watched), weights(alone))
    assert torch.equal(generator, torch.get_rng_state())
    assert not torch.equal(weights(watched), begun)
    assert rows[-1]["train/ggn_sharpness"] > 0


def test_equals_a_plain_loop() -> None:
    training, reference = make(batch_size=8), make(batch_size=8)
    go(training, budget=12)
    model, batches = reference.model, reference.batches
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(12):
        batch = batches(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch.inputs), batch.labels).backward()
        optimizer.step()
    assert torch.equal(weights(training), weights(reference))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon", "sam"])
def test_the_rate_falls_with_the_budget_and_survives_a_restart(optimizer: str, tmp_path: Path) -> None:
    rates: list[float] = []

    def followed() -> Training:
        training = make(optimizer)
        training.rate = Cosine()
        return training

    def cut(training: Training, stop: int) -> bool:
        return train(
            training,
            budget=20,
            schedule=Schedule(every=5, per_decade=0),
            record=lambda row: None,
            between=lambda: rates.append(training.optimizer.param_groups[0]["lr"]) or training.step < stop,  # type: ignore[func-returns-value]
        )

    whole = followed()
    assert cut(whole, 1000)
    calls = 2 if optimizer == "sam" else 1
    assert rates == pytest.approx([0.1 * Cosine()(calls * k / 20) for k in range(20 // calls)])
    first = followed()
    assert not cut(first, 4)
    checkpoint.save(tmp_path / "c", first)
    second = followed()
    checkpoint.restore(second, checkpoint.read(tmp_path / "c"))
    assert cut(second, 1000)
    assert torch.equal(weights(second), weights(whole))


def test_sum_is_mean_times_the_batch_and_long_gradients_are_shortened() -> None:
    plain, summed, clipped = make(), make(), make()
    summed.reduction = "sum"
    clipped.reduction, clipped.clip_grad_norm = "sum", 0.5
    for training in (plain, summed, clipped):
        training.advance()
    begun = weights(make())
    torch.testing.assert_close(weights(summed) - begun, 8 * (weights(plain) - begun))
    assert float((weights(clipped) - begun).norm()) == pytest.approx(0.1 * 0.5, rel=1e-4)
    assert float((weights(summed) - begun).norm()) > 0.1 * 0.5


def test_rows_come_at_scheduled_steps_and_at_the_end() -> None:
    rows = go(make(observers=("calibration",)), budget=12, every=5)
    assert [row["step"] for row in rows] == [0, 5, 10, 12]
    assert [row["gradients"] for row in rows] == [0, 5, 10, 12]


@pytest.mark.parametrize("name", WATCHING)
def test_observers_write_what_they_declare(name: str) -> None:
    (row, *_) = go(make(observers=(name,)), budget=1)
    quantities = OBSERVERS[name]().quantities
    only = {
        "batch_sharpness": "train",
        "hessian": "train",
        "sam_theory": "train",
        "posthoc": "test",
    }
    splits = (only[name],) if name in only else ("train", "test", "validation")
    declared = {f"{split}/{q}" for split in splits for q in quantities}
    if name == "reliability":  # a bin without samples has no mean confidence
        declared -= {
            key
            for key in declared
            if key.endswith("_confidence") and row[key.removesuffix("confidence") + "count"] == 0
        }
    assert set(row) - {"step", "gradients"} == declared
    assert all(isinstance(value, float) for key, value in row.items() if "/" in key)


class TwoGradients(torch.optim.SGD):
    def step(self, closure):  # type: ignore[no-untyped-def,override]
        closure()
        return super().step(closure)


def test_the_budget_counts_gradients_not_steps() -> None:
    training = make()
    training.optimizer = TwoGradients(training.model.parameters(), lr=0.1)
    rows = go(training, budget=20, every=100)
    assert (rows[-1]["step"], rows[-1]["gradients"]) == (10, 20)


def test_an_objective_may_need_more_than_logits() -> None:
    seen: list[Tensor] = []

    def decayed(model: nn.Module, batch: Batch) -> Tensor:
        seen.append(batch.indices)
        penalty = sum(p.square().sum() for p in model.parameters())
        return CrossEntropy()(model(batch.inputs), batch.labels) + 0.01 * penalty

    training = make(observers=("calibration",))
    training.objective = decayed
    rows = go(training, budget=5)
    assert len(seen[1]) == 40  # an observer sees the whole split; the first call is the one of step 0
    assert rows[0]["train/loss"] > rows[0]["train/nll"]
    training.observers = {"curvature": OBSERVERS["curvature"]()}
    with pytest.raises(ValueError, match="loss of logits"):
        training.observe()


def test_divergence_ends_the_run_and_says_where() -> None:
    rows: list[dict[str, float]] = []
    training = make("gd", batch_size=None, observers=("calibration",), lr=1e30)
    with pytest.raises(Diverged, match="step"):
        train(training, budget=50, schedule=Schedule(every=1), record=rows.append)
    assert rows
    assert rows[0]["step"] == 0


def test_an_exploding_loss_is_divergence_though_finite() -> None:
    training = make("gd", batch_size=None)
    training.advance()
    with torch.no_grad():
        training.model.layers[-1].weight.mul_(1e4)
    with pytest.raises(Diverged, match="exploded"):
        training.advance()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_holds_everything_a_step_depends_on(optimizer: str, tmp_path: Path) -> None:
    def fresh() -> Training:
        options = {"momentum": 0.9} if optimizer == "sgd" else {}
        size = None if optimizer == "gd" else 8
        return make(optimizer, observers=WATCHING, batch_size=size, **options)

    def rows(pauses: list[int]) -> list[dict[str, float]]:
        training, found = fresh(), []
        while not train(
            training,
            budget=30,
            schedule=Schedule(every=4),
            record=found.append,
            between=lambda: training.step not in pauses,  # noqa: B023
        ):
            pauses.remove(training.step)
            checkpoint.save(tmp_path / "c", training, note="x")
            torch.manual_seed(99)  # anything may have happened in between
            training = fresh()
            state = checkpoint.read(tmp_path / "c")
            assert state["extra"] == {"note": "x"}
            checkpoint.restore(training, state)
        return found

    assert rows([1, 7, 8, 29]) == rows([])


def test_a_broken_checkpoint_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        checkpoint.read(tmp_path / "c")


@pytest.mark.parametrize("batch_size", [None, 8])
def test_no_tensor_is_made_on_the_default_device(batch_size: int | None, tmp_path: Path) -> None:
    training = make("adamw", observers=WATCHING, batch_size=batch_size)
    with torch.device("meta"):  # whatever is made without naming a device now has no values, and cannot be mixed
        rows = go(training, budget=6, every=2)
        checkpoint.save(tmp_path / "c", training)
        checkpoint.restore(training, checkpoint.read(tmp_path / "c"))
    assert rows == go(make("adamw", observers=WATCHING, batch_size=batch_size), budget=6, every=2)


def test_slopes_in_the_inputs_are_not_computed_again_and_those_in_the_weights_are_the_same() -> None:
    training, plain = make(), make()
    seen: list[Tensor] = []

    class InInputs:
        """An objective with a slope in the inputs, as margin-aware and adversarial ones have."""

        def __call__(self, model: nn.Module, batch: Batch, /) -> Tensor:
            seen.append(batch.inputs.detach().requires_grad_())
            logits = model(seen[-1])
            (slope,) = torch.autograd.grad(logits.sum(), seen[-1], retain_graph=True)
            return (logits + model(batch.inputs + slope)).square().sum(dim=1)

    training.objective = InInputs()
    training.advance()
    InInputs()(plain.model, plain.batches(0)).mean().backward()
    assert seen[1].grad is not None
    assert seen[0].grad is None
    for ours, theirs in zip(training.model.parameters(), plain.model.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.equal(ours.grad, theirs.grad)
