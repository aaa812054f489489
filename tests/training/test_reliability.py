import pytest
import torch
from torch import nn

from surefoot.data import Split
from surefoot.losses import CrossEntropy, Lifted
from surefoot.training.observers import Reliability
from surefoot.training.snapshot import Snapshot


def test_bins_by_hand() -> None:
    """Confidences .9, .9, .6, .5 of two classes; of the two in the last of four bins one is right."""
    confidence = torch.tensor([0.9, 0.9, 0.6, 0.5], dtype=torch.float64)
    logits = torch.stack([confidence, 1 - confidence], dim=1).log()
    split = Split(logits, torch.tensor([0, 1, 0, 0]))
    row = Reliability(num_bins=4)(Snapshot(0, nn.Identity(), Lifted(CrossEntropy()), {"test": split}))
    assert [row[f"test/bin_{k:02d}_count"] for k in range(4)] == [0, 1, 1, 2]  # .5 ends the second bin
    assert "test/bin_00_confidence" not in row
    assert row["test/bin_03_confidence"] == pytest.approx(0.9)
    assert row["test/bin_03_accuracy"] == 0.5
    assert row["test/bin_03_low"] == pytest.approx(0.0945, abs=1e-4)  # Wilson's, 1 of 2
    assert row["test/bin_03_high"] == pytest.approx(0.9055, abs=1e-4)


def test_bad_bins_are_refused() -> None:
    for number in (0, 101):
        with pytest.raises(ValueError, match=f"`num_bins` must lie in 1..100, got {number}"):
            Reliability(num_bins=number)
