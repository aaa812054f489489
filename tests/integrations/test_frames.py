"""Predictions in other libraries' tables."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from references import slow
from surefoot.cli import main
from surefoot.integrations import frames
from surefoot.io import read_predictions
from surefoot.predictions import Predictions

WAYS: dict[str, tuple[Callable[[Predictions], Any], Callable[..., Predictions]]] = {
    "numpy": (frames.to_numpy, frames.from_numpy),
    "arrow": (frames.to_arrow, frames.from_arrow),
    "pandas": (frames.to_pandas, frames.from_pandas),
    "polars": (frames.to_polars, frames.from_polars),
    "datasets": (frames.to_dataset, frames.from_dataset),
}
ALL = pytest.mark.parametrize("way", WAYS)


def drawn(k: int = 12) -> Predictions:
    return Predictions(*slow.random_case(0, k=k))


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_there_and_back_nothing_changes(way: str, dtype: torch.dtype) -> None:
    there, back = WAYS[way]
    before = Predictions(drawn().logits.to(dtype), drawn().labels)
    after = back(there(before))
    assert after.logits.dtype == dtype
    assert torch.equal(after.logits, before.logits)
    assert torch.equal(after.labels, before.labels)
    assert after.given_probabilities is None


@ALL
def test_probabilities_stay_probabilities(way: str) -> None:
    there, back = WAYS[way]
    before = Predictions.from_probabilities(drawn().probabilities.float(), drawn().labels)
    after = back(there(before))
    assert after.given_probabilities is not None
    assert torch.equal(after.given_probabilities, before.probabilities.float())


@ALL
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_single(way: str, dtype: torch.dtype) -> None:
    there, back = WAYS[way]
    before = Predictions(drawn().logits.to(dtype).requires_grad_(), drawn().labels.to(torch.uint8))
    after = back(there(before))
    assert torch.equal(after.logits, before.logits.detach().float())
    assert torch.equal(after.labels, before.labels.long())


def test_the_columns_are_those_one_expects() -> None:
    few = Predictions(torch.tensor([[1.0, 2.0], [4.0, 3.0]]), torch.tensor([1, 0]))
    assert list(frames.to_pandas(few).columns) == ["logits_0", "logits_1", "labels"]
    assert frames.to_polars(few).to_dict(as_series=False) == {
        "logits_0": [1.0, 4.0],
        "logits_1": [2.0, 3.0],
        "labels": [1, 0],
    }
    assert frames.to_dataset(few)[1] == {"logits": [4.0, 3.0], "labels": 0}


def test_parquet_and_npz_for_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames.to_parquet(drawn(), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", **frames.to_numpy(drawn()))  # type: ignore[arg-type]
    for path in sorted(tmp_path.iterdir()):
        assert torch.equal(read_predictions(path).logits, drawn().logits)
        assert main(["evaluate", str(path), "--json"]) == 0
    assert '"ece"' in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 2


def test_other_names_and_other_columns() -> None:
    frame = frames.to_pandas(drawn(k=3)).rename(
        columns={"labels": "truth"} | {f"logits_{k}": f"net.{k}" for k in range(3)}
    )
    frame["note"] = "text beside numbers is no trouble"
    frame.index = pd.Index(range(100, 100 + len(frame)))
    assert torch.equal(frames.from_pandas(frame, logits="net", labels="truth").logits, drawn(k=3).logits)
    lists = pd.DataFrame({"logits": list(drawn(k=3).logits.numpy()), "label": drawn(k=3).labels.numpy()})
    assert torch.equal(frames.from_pandas(lists).logits, drawn(k=3).logits)
    lists = pl.DataFrame({"logits": drawn(k=3).logits.numpy(), "label": drawn(k=3).labels.numpy()})
    assert torch.equal(frames.from_polars(lists).logits, drawn(k=3).logits)


def test_a_dataset_that_was_shuffled_and_selected_and_has_class_labels() -> None:
    whole = frames.to_dataset(drawn(k=3)).cast_column("labels", datasets.ClassLabel(names=["ant", "bee", "cat"]))
    order = [5, 3, 8]
    found = frames.from_dataset(whole.select(order).with_format("torch"))
    assert torch.equal(found.logits, drawn(k=3).logits[order])
    assert torch.equal(found.labels, drawn(k=3).labels[order])
    ragged = datasets.Dataset.from_dict({"logits": [[1.0, 2.0], [1.0]], "labels": [0, 1]})
    with pytest.raises(ValueError, match="dataset: 'logits' must hold lists of the same length"):
        frames.from_dataset(ragged)


def test_bad_tables_are_refused() -> None:
    good = frames.to_pandas(drawn(k=3))
    with pytest.raises(TypeError, match=r"`frame` must be a pandas.DataFrame, got builtins.dict"):
        frames.from_pandas(good.to_dict())
    with pytest.raises(TypeError, match=r"`frame` must be a polars.DataFrame, got polars\.\S*LazyFrame"):
        frames.from_polars(frames.to_polars(drawn()).lazy())
    with pytest.raises(
        TypeError, match=r"must be a datasets.Dataset, one split in memory, got datasets\.\S*DatasetDict"
    ):
        frames.from_dataset(datasets.DatasetDict(test=frames.to_dataset(drawn())))
    with pytest.raises(TypeError, match="`arrays` must be a mapping from names to arrays, got ndarray"):
        frames.from_numpy(np.zeros((3, 3)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"frame has no labels: name them with `labels`. It holds: logits_0"):
        frames.from_pandas(good.drop(columns="labels"))
    with pytest.raises(
        ValueError, match="frame has neither 'logits' nor 'probs': say which to take with `logits` or `prob"
    ):
        frames.from_pandas(good[["labels"]])
    with pytest.raises(ValueError, match=r"columns of 'logits' must be numbered from 0 without gaps, got \[0, 2\]"):
        frames.from_pandas(good.drop(columns="logits_1"))
    with pytest.raises(ValueError, match="frame: 'logits_1' has 1 missing values"):
        frames.from_pandas(good.assign(logits_1=good["logits_1"].where(good.index != 3)))
    with pytest.raises(ValueError, match="`labels` must be whole numbers"):
        frames.from_pandas(good.assign(labels=good["labels"] + 0.5))
    with pytest.raises(ValueError, match=r"frame: `labels` must lie in 0..2, got values from 1 to 3"):
        frames.from_pandas(good.assign(labels=good["labels"].clip(0, 2) + 1))
    with pytest.raises(ValueError, match="frame: 'labels' must hold numbers, got object"):
        frames.from_pandas(good.assign(labels="ant"))
    with pytest.raises(ValueError, match="frame must hold columns of one type each"):
        frames.from_pandas(good.assign(labels=pd.Series([0, "ant"] * (len(good) // 2), dtype=object)))
    with pytest.raises(ValueError, match=r"all lie in .0, 1. and sum to 1.*name them with `probabilities`"):
        frames.from_numpy({"logits": drawn().probabilities.numpy(), "labels": drawn().labels.numpy()})
    with pytest.raises(ValueError, match="Give `logits` or `probabilities`, not both"):
        frames.from_numpy(frames.to_numpy(drawn()), logits="logits", probabilities="logits")
    with pytest.raises(ValueError, match=r"Unknown array in arrays 'logit'. Did you mean 'logits'\?"):
        frames.from_numpy(frames.to_numpy(drawn()), logits="logit")
    with pytest.raises(ValueError, match="table must name every column differently"):
        frames.from_arrow(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["logits_0", "logits_0"]))
    with pytest.raises(ValueError, match="must hold at least 1 sample"):
        frames.from_dataset(frames.to_dataset(drawn()).select([]))


@pytest.mark.parametrize(("module", "extra"), [("polars", "polars"), ("datasets", "datasets"), ("pyarrow", "parquet")])
def test_what_is_missing_is_named(module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    way: Callable[[Predictions], Any] = {"polars": frames.to_polars, "datasets": frames.to_dataset}.get(
        module, frames.to_arrow
    )
    with pytest.raises(ImportError, match=rf"This needs {module}: pip install 'surefoot\[{extra}\]'"):
        way(drawn())
