import json
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.cli import main
from surefoot.metrics import vote_ece, vote_kl
from surefoot.predictions import Predictions


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Predictions of three classes in test.npz, with votes beside them and in votes.npz."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(200, 3)), np.arange(200) % 3
    votes = random.multinomial(20, [0.5, 0.3, 0.2], size=200)
    np.savez("test.npz", logits=logits, labels=labels, people=votes)
    np.savez("votes.npz", counts=votes.astype(np.uint8))
    return votes


@pytest.mark.parametrize("where", ["people", "votes.npz"])
def test_votes_from_a_file_or_from_beside(where: str, counts: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "test.npz", "--label-counts", where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    file = np.load("test.npz")
    predictions = Predictions(torch.from_numpy(file["logits"]), torch.from_numpy(file["labels"]))
    for name, measure in (("vote_ece", vote_ece), ("vote_kl", vote_kl)):
        assert found[name]["value"] == pytest.approx(measure(predictions, torch.from_numpy(counts)).item())
        assert found[name]["low"] < found[name]["value"] < found[name]["high"]
    assert {"vote_accuracy", "vote_nll", "ece"} <= set(found)


def test_the_table_has_them(counts: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "test.npz", "--label-counts", "people"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("vote_accuracy", "vote_ece", "vote_nll", "vote_kl"))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("peple", "Did you mean 'people'?"),
        ("absent.npz", "There is no file absent.npz"),
        ("other.npz", "other.npz must hold an array called counts, label_counts or votes, got x"),
        ("short.npz", "`counts` must have the shape [200, 3] of the predictions, got [199, 3]"),
        ("none.npz", "`counts` must have votes for every sample, got none in row 7"),
        ("negative.npz", "`counts` must be finite and at least 0"),
        ("labels", "test.npz: 'labels' must hold numbers of votes [N, K], got torch.int64 [200]"),
    ],
)
def test_bad_requests(where: str, message: str, counts: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    none, negative = counts.copy(), counts.copy()
    none[7], negative[7, 0] = 0, -1
    np.savez("other.npz", x=counts)
    np.savez("short.npz", counts=counts[:-1])
    np.savez("none.npz", counts=none)
    np.savez("negative.npz", counts=negative)
    assert main(["evaluate", "test.npz", "--label-counts", where]) == 2
    assert message in capsys.readouterr().err
