"""Both packages of Lightning, as they are: weights equal to the plain loop's, with and without the callback."""

import csv
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from surefoot.data import digits
from surefoot.integrations import lightning_callback
from surefoot.metrics import ece
from surefoot.optim import CSAM, SAM
from surefoot.predictions import Predictions
from surefoot.runs.folder import RunFolder

pytest.importorskip("lightning")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),
]

DATA = digits(num_train=96)
TRAIN = TensorDataset(DATA.train.inputs, DATA.train.labels)
TEST = TensorDataset(DATA.test.inputs[:50], DATA.test.labels[:50])
PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def module(package: Any, *, kind: str = "sgd", returns: str = "logits") -> Any:
    class Classifier(package.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, 10))

        def forward(self, inputs: Tensor) -> Tensor:
            if returns == "nothing, without forward":
                raise NotImplementedError
            return self.net(inputs)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            inputs, labels = batch
            if kind == "csam":
                return self.optimizer.loss(self.net(inputs), labels)
            return nn.functional.cross_entropy(self.net(inputs), labels)

        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
            inputs, labels = batch
            return {"logits": self.net(inputs), "labels": labels} if returns == "logits" else None

        def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self.net(batch[0])

        def configure_optimizers(self) -> Any:
            self.optimizer = optimizer_of(kind, self)
            return self.optimizer

    return Classifier()


def optimizer_of(kind: str, model: nn.Module) -> Any:
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.1)
    if kind == "sam":
        return SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    return CSAM(model.parameters(), torch.optim.SGD, rho=0.05, gamma=1.0, lr=0.1, momentum=0.9)


def fitted(
    package: Any, model: Any, folder: Path, *callbacks: Any, loaders: Any = None, ckpt_path: Any = None, **options: Any
) -> Any:
    trainer = package.Trainer(
        accelerator="cpu",
        logger=options.pop("logger", False),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=list(callbacks),
        **{"max_epochs": 2, **options},
    )
    torch.manual_seed(1)
    loaders = loaders or DataLoader(TEST, batch_size=20)
    trainer.fit(model, DataLoader(TRAIN, batch_size=32, shuffle=True), loaders, ckpt_path=ckpt_path)
    return trainer


def plain(kind: str) -> nn.Module:
    model = nn.Module()
    torch.manual_seed(0)
    model.net = nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.2), nn.Linear(12, 10))
    optimizer = optimizer_of(kind, model)
    loss = optimizer.loss if kind == "csam" else nn.functional.cross_entropy
    torch.manual_seed(1)
    for _ in range(2):
        for inputs, labels in DataLoader(TRAIN, batch_size=32, shuffle=True):

            def closure(inputs: Tensor = inputs, labels: Tensor = labels) -> Tensor:
                optimizer.zero_grad()
                value = loss(model.net(inputs), labels)
                value.backward()
                return value

            optimizer.step(closure)
    return model


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("kind", ["sgd", "sam", "csam"])
def test_fit_gives_the_weights_of_the_plain_loop(tmp_path: Path, name: str, kind: str) -> None:
    package = importlib.import_module(name)
    callback = lightning_callback(tmp_path / "run", every=2, package=name.partition(".")[0])  # type: ignore[arg-type]
    assert isinstance(callback, package.Callback)
    model = module(package, kind=kind)
    fitted(package, model, tmp_path, callback, limit_val_batches=0, num_sanity_val_steps=0)
    for name_of, value in plain(kind).state_dict().items():
        assert torch.equal(value, model.state_dict()[name_of]), name_of
    rows, _ = RunFolder(tmp_path / "run").rows()
    assert [row["step"] for row in rows] == [1, 2, 4, 6]
    assert rows[-1]["gradients"] == (6 if kind == "sgd" else 12)
    assert RunFolder(tmp_path / "run").ended


@pytest.fixture
def package() -> Any:
    return importlib.import_module(PACKAGES[0])


@pytest.mark.parametrize("returns", ["logits", "nothing"])
def test_validation_is_seen_with_and_without_logits_and_changes_no_bit(
    tmp_path: Path, package: Any, returns: str
) -> None:
    alone, watched = module(package, returns=returns), module(package, returns=returns)
    fitted(package, alone, tmp_path)
    observers = ("calibration", "margins", "curvature")
    trainer = fitted(package, watched, tmp_path, lightning_callback(tmp_path / "run", every=2, observers=observers))
    for name, value in alone.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name]), name
    rows, _ = RunFolder(tmp_path / "run").rows()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 6]  # 3 and 6 end epochs; nothing of the sanity check at 0
    assert ["test/ece" in row for row in rows] == [False, False, True, False, True]
    assert all("train/ggn_sharpness" in row for row in rows)
    with torch.no_grad():
        wanted = float(ece(Predictions(watched.net.eval()(TEST.tensors[0]), TEST.tensors[1])))
    assert rows[-1]["test/ece"] == pytest.approx(wanted, rel=1e-5)
    assert float(trainer.callback_metrics["test/ece"]) == pytest.approx(wanted, rel=1e-5)


def test_every_validation_loader_has_its_prefix(tmp_path: Path, package: Any) -> None:
    loaders = [DataLoader(TEST, batch_size=20), DataLoader(TRAIN, batch_size=96), DataLoader(TEST, batch_size=50)]
    callback = lightning_callback(tmp_path / "run", splits=("test", "seen"), observers=("calibration",))
    trainer = fitted(package, module(package), tmp_path, callback, loaders=loaders)
    row = RunFolder(tmp_path / "run").rows()[0][-1]
    assert row["test/ece"] == pytest.approx(row["test-2/ece"])
    assert row["seen/nll"] != row["test/nll"]
    assert "seen/ece" in trainer.callback_metrics


def test_a_fit_from_a_checkpoint_goes_on_with_the_rows(tmp_path: Path, package: Any) -> None:
    def callback(name: str) -> Any:
        return lightning_callback(tmp_path / name, every=2, observers=("calibration", "curvature"))

    whole = module(package)
    torch.manual_seed(5)
    fitted(package, whole, tmp_path, callback("whole"), max_epochs=2, num_sanity_val_steps=0)
    first = module(package)
    trainer = fitted(package, first, tmp_path, callback("cut"), max_epochs=1, num_sanity_val_steps=0)
    state, name = torch.get_rng_state(), RunFolder(tmp_path / "cut").record["id"]
    trainer.save_checkpoint(tmp_path / "at.ckpt")
    with (tmp_path / "cut" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99}\n')  # written after the checkpoint: to be dropped
    second = module(package)
    again = package.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=2,
        callbacks=[callback("cut")],
    )
    torch.set_rng_state(state)
    loader = DataLoader(TRAIN, batch_size=32, shuffle=True)
    again.fit(second, loader, DataLoader(TEST, batch_size=20), ckpt_path=tmp_path / "at.ckpt")
    steps = [row["step"] for row in RunFolder(tmp_path / "cut").rows()[0]]
    assert steps == [row["step"] for row in RunFolder(tmp_path / "whole").rows()[0]] == [1, 2, 3, 4, 6]
    assert RunFolder(tmp_path / "cut").ended
    assert RunFolder(tmp_path / "cut").record["id"] == name


def test_mixed_precision(tmp_path: Path, package: Any) -> None:
    model = module(package, kind="sam", returns="nothing")
    fitted(package, model, tmp_path, lightning_callback(tmp_path / "run"), precision="bf16-mixed", max_epochs=1)
    alone = module(package, kind="sam", returns="nothing")
    fitted(package, alone, tmp_path, precision="bf16-mixed", max_epochs=1)
    for name, value in alone.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    row = RunFolder(tmp_path / "run").rows()[0][-1]
    with torch.no_grad():
        exact = float(ece(Predictions(model.net.eval()(TEST.tensors[0]), TEST.tensors[1])))
    assert row["test/ece"] != exact  # seen as it is computed in training, in 8 digits
    assert row["test/ece"] == pytest.approx(exact, abs=0.03)


def test_what_would_go_wrong_is_refused(tmp_path: Path, package: Any) -> None:
    with pytest.raises(ValueError, match="`accumulate_grad_batches` must be 1 with SAM, got 2"):
        fitted(package, module(package, kind="sam"), tmp_path, lightning_callback(tmp_path), accumulate_grad_batches=2)
    headless = module(package, returns="nothing, without forward")
    with pytest.raises(ValueError, match="`model_of="):
        fitted(package, headless, tmp_path, lightning_callback(tmp_path))
    with pytest.raises(ValueError, match="`package` must be"):
        lightning_callback(tmp_path, package="torch")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`splits` must name"):
        lightning_callback(tmp_path, splits=())
    callback = lightning_callback(tmp_path / "inner", model_of=lambda module: module.net)
    fitted(package, headless, tmp_path, callback, accumulate_grad_batches=3)
    assert [row["step"] for row in RunFolder(tmp_path / "inner").rows()[0]] == [1, 2]  # parts of a batch do not count


def test_predict_needs_no_labels(tmp_path: Path, package: Any) -> None:
    model = module(package)
    trainer = fitted(package, model, tmp_path, lightning_callback(tmp_path / "run"))
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    found = trainer.predict(model, DataLoader(TensorDataset(TEST.tensors[0]), batch_size=25))
    assert len(torch.cat(found)) == 50
    assert trainer.validate(model, DataLoader(TEST, batch_size=25), verbose=False) == [{}]
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == before


def test_an_exception_is_in_the_record(tmp_path: Path, package: Any) -> None:
    model = module(package)

    class Breaking(package.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, *arguments: Any) -> None:
            if trainer.global_step == 4:
                raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError):
        fitted(package, model, tmp_path, lightning_callback(tmp_path / "run"), Breaking())
    assert RunFolder(tmp_path / "run").record["reason"] == "ZeroDivisionError: on purpose"


def test_the_trainers_loggers_get_every_row(tmp_path: Path, package: Any) -> None:
    logger = importlib.import_module(f"{PACKAGES[0]}.loggers").CSVLogger(tmp_path / "csv")
    fitted(package, module(package), tmp_path, lightning_callback(tmp_path / "run", every=2), logger=logger)
    (file,) = tmp_path.glob("csv/**/metrics.csv")
    with file.open() as lines:
        logged = [row for row in csv.DictReader(lines) if row["train/ece"]]
    rows, _ = RunFolder(tmp_path / "run").rows()
    assert {int(row["step"]): float(row["train/ece"]) for row in logged} == pytest.approx(
        {row["step"]: row["train/ece"] for row in rows}
    )
