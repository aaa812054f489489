import os
import sys
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))  # for `references`, the slow and dense ways to the same numbers

BESIDE = TESTS.parents[1] / "shared" / "data"
if "SUREFOOT_DATA" not in os.environ and BESIDE.is_dir():
    os.environ["SUREFOOT_DATA"] = str(BESIDE)

torch.set_num_threads(1)


@pytest.fixture
def cifar10() -> None:
    """Skips where the images are not at hand."""
    if not (Path(os.environ.get("SUREFOOT_DATA", "")) / "cifar10_5k.npz").is_file():
        pytest.skip("SUREFOOT_DATA does not name a folder with cifar10_5k.npz")
