from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from references import slow
from references.processes import in_two_processes
from surefoot.metrics import METRICS, StreamingMetrics
from surefoot.metrics.streaming import STREAMING
from surefoot.predictions import Predictions


def assert_same(stream: StreamingMetrics, whole: Predictions) -> None:
    found = stream.compute()
    assert set(found) == set(STREAMING)
    for name, value in found.items():
        torch.testing.assert_close(value, METRICS[name](whole), rtol=1e-12, atol=1e-12, msg=name)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 59), max_size=5, unique=True), k=st.integers(2, 7))
def test_equal_to_all_samples_at_once_however_split_and_merged(seed: int, cuts: list[int], k: int) -> None:
    logits, labels = slow.random_case(seed, k=k)
    streams = []
    for number, part in enumerate(
        zip(logits.tensor_split(sorted(cuts)), labels.tensor_split(sorted(cuts)), strict=True)
    ):
        if number % 2 == 0:
            streams.append(StreamingMetrics(k))
        streams[-1].update(Predictions(*part))
    first, *others = streams
    for other in reversed(others):
        first.merge(other)
    assert_same(first, Predictions(logits, labels))
    first.reset()
    first.update(Predictions(logits, labels))
    assert_same(first, Predictions(logits, labels))


def test_the_state_does_not_grow() -> None:
    stream = StreamingMetrics(3)
    size = stream.state.numel()
    for seed in range(3):
        stream.update(Predictions(*slow.random_case(seed, k=3)))
    assert stream.state.numel() == size < 3 * (3 + 1) * 15 + 20


def test_what_cannot_stream_says_so() -> None:
    with pytest.raises(ValueError, match=r"Unknown streaming metric .kce..*Others need all samples at once"):
        StreamingMetrics(3, metrics=["kce"])
    with pytest.raises(ValueError, match="call `update` first"):
        StreamingMetrics(3).compute()
    with pytest.raises(ValueError, match="must have 3 classes like the stream, got 4"):
        StreamingMetrics(3).update(Predictions(*slow.random_case(0, k=4)))
    with pytest.raises(ValueError, match="the same classes, bins and metrics"):
        StreamingMetrics(3).merge(StreamingMetrics(3, num_bins=10))
    with pytest.raises(ValueError, match="init_process_group"):
        StreamingMetrics(3).all_reduced()


def _process(rank: int, folder: Path) -> None:
    stream = StreamingMetrics(4)
    logits, labels = slow.random_case(5)
    part = slice(0, 17) if rank == 0 else slice(17, 60)
    stream.update(Predictions(logits[part], labels[part]))
    before = stream.compute()["accuracy"]
    whole = stream.all_reduced()
    assert torch.equal(stream.compute()["accuracy"], before)
    assert_same(whole, Predictions(logits, labels))
    (folder / str(rank)).touch()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_processes_of_a_group_together(tmp_path: Path) -> None:
    in_two_processes(_process, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
