"""The real loggers, offline: what was logged can be read back by their own means."""

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from surefoot.integrations import Watch
from surefoot.integrations.loggers import LOGGERS, Logger, MLflow, TensorBoard, WandB
from surefoot.runs.folder import RunFolder

BATCH = (torch.eye(4), torch.tensor([0, 1, 2, 0]))


def watched(folder: Path, *sinks: Logger, num_steps: int = 3) -> list[dict[str, float]]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    rows = []
    with Watch(model, folder=folder, optimizer=optimizer, every=1, observers=("calibration",), sinks=sinks) as watch:
        for _ in range(num_steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
            optimizer.step()
            row = watch.step(BATCH)
            assert row is not None
            rows.append(row)
    return rows


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    rows = watched(tmp_path / "run", TensorBoard(tmp_path / "events"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    found = events.Scalars("train/ece")
    assert [event.step for event in found] == [1, 2, 3]
    assert [event.value for event in found] == pytest.approx([row["train/ece"] for row in rows], rel=1e-6)
    assert b'"lr": 0.5' in events.Tensors("config/text_summary")[0].tensor_proto.string_val[0]


def records(content: bytes) -> Iterator[bytes]:
    """The records of a file of wandb's: 7 bytes at the start, then parts with sum, length and kind, in blocks."""
    at, held, block = 7, b"", 32768
    while at + 7 <= len(content):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        if at + 7 + length > len(content):  # not yet whole
            return
        held += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield held
            held = b""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    rows = watched(tmp_path / "run", WandB("surefoot-test", folder=tmp_path))
    from wandb.proto import wandb_internal_pb2

    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    found: list[float] = []
    deadline = time.monotonic() + 60
    while len(found) < len(rows) and time.monotonic() < deadline:  # its own process may still be writing
        time.sleep(0.2)
        found = []
        for data in records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            found += [float(item.value_json) for item in record.history.item if list(item.nested_key) == ["train/ece"]]
    assert found == pytest.approx([row["train/ece"] for row in rows])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_mlflow_in_a_database(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    logger = MLflow(uri=uri)
    rows = watched(tmp_path / "run", logger)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_metric_history(logger.run_id, "train/ece")
    assert {each.step: each.value for each in found} == pytest.approx({row["step"]: row["train/ece"] for row in rows})
    run = client.get_run(logger.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["optimizer.lr"] == "0.5"


class Failing:
    """Fails at every call, as a server that is gone."""

    def __init__(self) -> None:
        self.num_calls = 0

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._fail()

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._fail()

    def finish(self) -> None:
        self._fail()

    def _fail(self) -> None:
        self.num_calls += 1
        raise ConnectionError("no route to host")


def test_a_logger_that_fails_stops_nothing_and_is_said_once(tmp_path: Path) -> None:
    failing = Failing()
    with pytest.warns(RuntimeWarning) as told:
        rows = watched(tmp_path, failing)
    assert len(rows) == 3
    assert failing.num_calls == 5
    assert [str(each.message) for each in told] == [
        "The logger Failing failed and may miss numbers; training goes on, and this is the only warning. "
        "ConnectionError: no route to host"
    ]
    assert RunFolder(tmp_path).ended


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_package_is_said_with_its_extra(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(ImportError, match=rf"pip install 'surefoot\[{name}\]'"):
        LOGGERS[name](str(tmp_path))
