"""A loop of one's own under a watch: the same bits, the numbers of the metrics themselves, the folder pages read."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from references.processes import in_two_processes
from surefoot.cli import main
from surefoot.cli.watch import live_page, progress_table
from surefoot.curvature import sharpness
from surefoot.data import digits
from surefoot.eval_mode import evaluating
from surefoot.integrations import Watch
from surefoot.metrics import ece, nll
from surefoot.optim import CSAM
from surefoot.predictions import Predictions
from surefoot.runs.folder import RunFolder

DATA = digits(num_train=256)
TEST = TensorDataset(DATA.test.inputs[:100], DATA.test.labels[:100])


class Noisy(nn.Module):
    """Draws from the global generator in training, and keeps running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 10))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.body(inputs)


def network() -> nn.Module:
    torch.manual_seed(0)
    return Noisy()


def train(
    model: nn.Module,
    *,
    folder: Path | None = None,
    num_steps: int = 6,
    autocast: bool = False,
    optimizer: torch.optim.Optimizer | None = None,
    **options: Any,
) -> list[dict[str, float]]:
    """Train on shuffled batches, under a watch if there is a folder; returns its rows."""
    torch.manual_seed(1)
    loader = DataLoader(TensorDataset(DATA.train.inputs, DATA.train.labels), batch_size=32, shuffle=True)
    held_out = DataLoader(TEST, batch_size=40, shuffle=True)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    options = {"splits": {"test": held_out}, "every": 2, **options}
    watch = (
        None if folder is None else Watch(model, nn.CrossEntropyLoss(), folder=folder, optimizer=optimizer, **options)
    )
    rows, steps = [], 0
    while steps < num_steps:
        for inputs, labels in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                if watch is not None and (row := watch.step((inputs, labels))) is not None:
                    rows.append(row)
                if autocast:  # once more inside the same block, by the casts kept there
                    nn.functional.cross_entropy(model(inputs), labels).backward()
                    optimizer.step()
            steps += 1
            if steps == num_steps:
                break
    if watch is not None:
        watch.finish()
    return rows


@pytest.mark.parametrize("autocast", [False, True])
def test_training_under_a_watch_gives_the_same_bits(tmp_path: Path, autocast: bool) -> None:
    alone, watched = network(), network()
    train(alone, autocast=autocast)
    rows = train(watched, folder=tmp_path, autocast=autocast, observers=("calibration", "curvature", "hessian"))
    assert [row["step"] for row in rows] == [1, 2, 4, 6]
    assert all(module.training for module in watched.modules())
    for name, value in alone.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name]), name


def test_under_autocast_the_weights_after_the_step_are_seen(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    inputs, labels = DATA_BATCH
    with torch.autocast("cpu", dtype=torch.bfloat16):
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        row = Watch(model, folder=tmp_path / "a").step(DATA_BATCH)  # autocast keeps casts from before the step
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fresh = Watch(model, folder=tmp_path / "b").step(DATA_BATCH)
    assert row == pytest.approx(fresh, nan_ok=True)


def test_a_row_holds_what_the_metrics_say(tmp_path: Path) -> None:
    model = network()
    row = train(model, folder=tmp_path, observers=("calibration", "curvature"))[-1]
    with evaluating(model), torch.no_grad():
        said = Predictions(model(TEST.tensors[0]), TEST.tensors[1])
    assert row["test/ece"] == pytest.approx(float(ece(said)), rel=1e-6)
    assert row["test/nll"] == pytest.approx(float(nll(said)), rel=1e-6)
    assert row["test/loss"] == pytest.approx(float(nll(said)), rel=1e-5)
    value = sharpness(model, nn.CrossEntropyLoss(), TEST.tensors).value  # type: ignore[arg-type]
    assert row["test/ggn_sharpness"] == pytest.approx(value, rel=0.03)
    assert row["step"] == row["gradients"] == 6


def test_the_folder_is_what_the_commands_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("vl_convert")
    train(network(), folder=tmp_path, num_steps=4)
    run = RunFolder(tmp_path)
    assert (run.status, run.ended, len(run.rows()[0])) == ("done", True, 3)
    assert run.spec.label == "sgd momentum=0.9 lr=0.1 seed=0"
    assert set(run.spec.observers) == {"calibration", "margins", "reliability"}
    assert main(["report", str(tmp_path)]) == 0
    assert main(["diagnose", str(tmp_path)]) == 0
    assert "on average it is" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert "Watched in a training loop" in page
    assert "surefoot train spec.toml" not in page
    assert "Watched in a training loop" in live_page(tmp_path)
    assert progress_table(tmp_path).rows[0][1:3] == ("done", None)  # nobody said how many steps it would be


def test_csam_counts_its_gradients_and_reports(tmp_path: Path) -> None:
    model = network()
    optimizer = CSAM(model.parameters(), lr=0.1)
    inputs, labels = DATA.train.inputs[:32], DATA.train.labels[:32]

    def closure() -> Tensor:
        loss = optimizer.loss(model(inputs), labels)
        loss.backward()
        return loss

    with Watch(model, folder=tmp_path, optimizer=optimizer, num_steps=4) as watch:
        optimizer.step(closure)
        row = watch.step((inputs, labels))
    assert row is not None
    assert (row["gradients"], row["optimizer/gamma"]) == (2, 1.0)
    assert progress_table(tmp_path).rows[0][2] == "25 %"


def test_what_comes_at_one_step_is_one_row(tmp_path: Path) -> None:
    watch = Watch(network(), folder=tmp_path, every=2)
    for _ in range(3):
        watch.step(DATA_BATCH)
    watch.evaluate([DATA_BATCH], split="test")
    watch.measure(torch.eye(10), torch.arange(10), split="other")
    watch.finish()
    rows, _ = RunFolder(tmp_path).rows()
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[-1]["test/ece"] == rows[-1]["train/ece"]
    assert rows[-1]["other/accuracy"] == 1.0


def test_a_resumed_watch_writes_the_rows_of_one_that_was_not_cut(tmp_path: Path) -> None:
    model = network()
    options: dict[str, Any] = {"every": 1, "observers": ("calibration", "curvature")}

    def steps(watch: Watch, number: int) -> None:
        for _ in range(number):
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(1.1)
            watch.step(DATA_BATCH)

    start = copy.deepcopy(model.state_dict())
    whole = Watch(model, folder=tmp_path / "whole", **options)
    steps(whole, 4)
    whole.finish()
    model.load_state_dict(start)
    first = Watch(model, folder=tmp_path / "cut", **options)
    steps(first, 2)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    at = copy.deepcopy(model.state_dict())
    steps(first, 1)  # lost: it comes again
    model.load_state_dict(at)
    second = Watch(model, folder=tmp_path / "cut", **options)
    second.load_state_dict(torch.load(tmp_path / "state.pt"))
    steps(second, 2)
    second.finish()
    assert (tmp_path / "cut" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    with pytest.raises(ValueError, match="`state` must be of the same observers"):
        Watch(model, folder=tmp_path / "cut").load_state_dict(second.state_dict())
    with pytest.raises(ValueError, match="has begun"):
        second.load_state_dict(first.state_dict())


def test_a_folder_with_a_run_is_not_written_over_unsaid(tmp_path: Path) -> None:
    Watch(network(), folder=tmp_path).step(DATA_BATCH)
    with pytest.raises(ValueError, match="`folder` holds a run already"):
        Watch(network(), folder=tmp_path).step(DATA_BATCH)
    Watch(network(), folder=tmp_path, overwrite=True).step(DATA_BATCH)
    assert len(RunFolder(tmp_path).rows()[0]) == 1


def test_how_it_ended_is_in_the_record(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Watch(network(), folder=tmp_path / "a") as watch:  # noqa: PT012
        watch.step(DATA_BATCH)
        _ = 1 / 0
    assert RunFolder(tmp_path / "a").record["reason"] == "ZeroDivisionError: division by zero"
    with pytest.raises(KeyboardInterrupt), Watch(network(), folder=tmp_path / "b") as watch:  # noqa: PT012
        watch.step(DATA_BATCH)
        raise KeyboardInterrupt
    assert RunFolder(tmp_path / "b").status == "interrupted"
    with pytest.raises(ValueError, match="has ended"):
        watch.step(DATA_BATCH)


def test_a_model_that_is_not_finite_leaves_gaps_and_has_diverged(tmp_path: Path) -> None:
    model = nn.Linear(64, 10)
    watch = Watch(model, folder=tmp_path, every=1)
    watch.step(DATA_BATCH)
    nn.init.constant_(model.weight, math.nan)
    with pytest.warns(RuntimeWarning, match="train set are not finite at step 2"):
        watch.step(DATA_BATCH)
    watch.step(DATA_BATCH)  # said once: a second warning would be an error here
    watch.finish()
    run = RunFolder(tmp_path)
    assert run.status == "diverged"
    assert [row["train/ece"] is None for row in run.rows()[0]] == [False, True, True]
    assert "NaN" not in json.dumps(run.rows()[0])


DATA_BATCH = (DATA.train.inputs[:32], DATA.train.labels[:32])


class Returns(nn.Module):
    """A model that returns what is made of its logits."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(64, 10)
        self.make = make

    def forward(self, inputs: Tensor, scale: Tensor | None = None) -> Any:
        return self.make(self.layer(inputs if scale is None else inputs * scale))


@pytest.mark.parametrize(
    "make",
    [
        lambda z: {"logits": z, "hidden": z[:, :4]},
        lambda z: (z.sum(), z),
        lambda z: type("Output", (), {"logits": z})(),
    ],
    ids=["mapping", "tuple", "attribute"],
)
def test_logits_are_found_where_there_is_no_doubt(tmp_path: Path, make: Any) -> None:
    plain = Watch(Returns(lambda z: z), folder=tmp_path / "a").step(DATA_BATCH)
    assert Watch(Returns(make), folder=tmp_path / "b").step(DATA_BATCH) == pytest.approx(plain, nan_ok=True)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda z: {"scores": z}, "mapping without `logits`, with keys"),
        (lambda z: (z, z), "2 tensors of shape"),
        (lambda z: z[:, 0], "one logit z of two classes"),
        (lambda z: "none", "got str"),
        (lambda z: z[None], "got torch.float32 of shape"),
    ],
)
def test_what_could_be_anything_is_refused_with_the_argument_to_pass(tmp_path: Path, make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=rf"{said}"):
        Watch(Returns(make), folder=tmp_path).step(DATA_BATCH)
    with pytest.raises(ValueError, match="`logits_of="):
        Watch(Returns(make), folder=tmp_path).step(DATA_BATCH)
    assert not (tmp_path / "run.json").exists()


def test_logits_of_says_which(tmp_path: Path) -> None:
    watch = Watch(Returns(lambda z: (z, -z)), folder=tmp_path / "a", logits_of=lambda output: output[0])
    plain = Watch(Returns(lambda z: z), folder=tmp_path / "b").step(DATA_BATCH)
    assert watch.step(DATA_BATCH) == pytest.approx(plain, nan_ok=True)


def test_batches_of_several_shapes(tmp_path: Path) -> None:
    inputs, labels = DATA_BATCH
    model = Returns(lambda z: z)
    wanted = Watch(model, folder=tmp_path / "0", observers=("calibration", "curvature")).step(DATA_BATCH)
    scale = torch.ones(32, 1)
    batches: list[Any] = [[inputs, labels], {"x": inputs, "label": labels}, ((inputs, scale), labels)]
    for number, batch in enumerate(batches, start=1):
        watch = Watch(model, folder=tmp_path / str(number), observers=("calibration", "curvature"))
        assert watch.step(batch) == pytest.approx(wanted)
    watch = Watch(model, folder=tmp_path / "9", batch_of=lambda batch: (batch[0], batch[2]))
    assert watch.step((inputs, scale, labels)) is not None


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ((DATA_BATCH[0],), "has no labels.*`batch_of="),
        (DATA_BATCH[0], "has no labels.*`batch_of="),
        ({"input_ids": DATA_BATCH[0]}, r"no labels among its keys \['input_ids'\].*`batch_of="),
        ((*DATA_BATCH, 1), "got a tuple of 3: .*`batch_of="),
        ({"a": DATA_BATCH[0], "b": DATA_BATCH[0], "labels": DATA_BATCH[1]}, "leaves open.*`batch_of="),
        ((DATA_BATCH[0], torch.zeros(32, 10)), "multi-label"),
        ((DATA_BATCH[0], torch.zeros(32, 10, dtype=torch.long)), "multi-label"),
        ((DATA_BATCH[0], [0] * 32), "`labels` must be a tensor, got list"),
        ((["text"], DATA_BATCH[1]), "must be a tensor, or a mapping or tuple"),
        ((DATA_BATCH[0], DATA_BATCH[1] + 5), "`labels` must lie in 0..9"),
    ],
)
def test_batches_that_say_too_little_are_refused(tmp_path: Path, batch: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Watch(Returns(lambda z: z), folder=tmp_path).step(batch)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": 0}, "`every` must be at least 1, got 0"),
        ({"observers": ("calibraton",)}, "Did you mean 'calibration'"),
        ({"observers": "calibration"}, "`observers` must be names in a list"),
        ({"observers": {"curvature": {"stopp": "bound"}}}, "Did you mean 'stop'"),
        ({"observers": {"curvature": {"stop": 3}}}, "`observers.curvature.stop` must be"),
        ({"sinks": [print]}, "`sinks` must have `log`"),
        ({"loss": 1}, "`loss` must be a function"),
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Watch(nn.Linear(64, 10), folder=tmp_path, **options)
    with pytest.raises(ValueError, match="`model` must be a torch module"):
        Watch(print, folder=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gave no batch"):
        Watch(nn.Linear(64, 10), folder=tmp_path).evaluate(iter(()))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_nothing(tmp_path: Path, reentrant: bool) -> None:
    class Saving(Noisy):
        def forward(self, inputs: Tensor) -> Tensor:
            if reentrant and not self.training:  # where models that use the old form leave it out themselves
                return self.body(inputs)
            return checkpoint(self.body, inputs.requires_grad_(), use_reentrant=reentrant)

    def network() -> nn.Module:
        torch.manual_seed(0)
        return Saving()

    alone, watched = network(), network()
    train(alone)
    rows = train(watched, folder=tmp_path, observers=("calibration", "curvature"))
    assert all(math.isfinite(rows[-1][key]) for key in ("train/ece", "test/ggn_sharpness"))
    for name, value in alone.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name]), name


def _two(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    model = nn.parallel.DistributedDataParallel(network().double())
    part = slice(0, 20) if rank == 0 else slice(20, 32)
    inputs, labels = DATA_BATCH[0][part].double(), DATA_BATCH[1][part]
    with Watch(model, folder=folder / "two", observers=("calibration", "curvature")) as watch:
        row = watch.step((inputs, labels))
    torch.save(row, folder / f"row{rank}.pt")


@pytest.mark.slow
def test_two_processes_see_the_samples_of_both_and_one_writes(tmp_path: Path) -> None:
    in_two_processes(_two, tmp_path)
    observers = ("calibration", "curvature")
    alone = Watch(network().double(), folder=tmp_path / "one", observers=observers)
    wanted = alone.step((DATA_BATCH[0].double(), DATA_BATCH[1]))
    assert torch.load(tmp_path / "row0.pt") == torch.load(tmp_path / "row1.pt") == pytest.approx(wanted)
    rows, _ = RunFolder(tmp_path / "two").rows()
    assert len(rows) == 1
    assert RunFolder(tmp_path / "two").status == "done"


def test_what_a_watch_cannot_make_sense_of_is_refused(tmp_path: Path) -> None:
    model, batch = nn.Linear(2, 3), (torch.eye(2), torch.tensor([0, 1], dtype=torch.int32))
    with Watch(model, nn.CrossEntropyLoss(), folder=tmp_path / "one") as watch:
        with pytest.raises(ValueError, match="There is nothing to evaluate"):
            watch.step()
        assert watch.step(batch, step=5) is not None  # labels of any whole type
        with pytest.raises(ValueError, match="must count on through epochs: it was 5, got 4"):
            watch.step(batch, step=4)
        with pytest.raises(ValueError, match="test must be batches, got one pair of tensors: put it into a list"):
            watch.evaluate(batch)


def test_probabilities_in_the_place_of_logits_are_told(tmp_path: Path) -> None:
    model, batch = nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=1)), (torch.eye(2), torch.tensor([0, 1]))
    watch = Watch(model, folder=tmp_path / "one")
    with pytest.warns(RuntimeWarning, match="rows that sum to 1: probabilities"):
        watch.step(batch)
    other = Watch(model, folder=tmp_path / "two", logits_of=lambda output: output.log())
    other.step(batch)
