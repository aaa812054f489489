"""Two processes take the steps of one, and see what one sees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from references.processes import in_two_processes
from surefoot.data import Split
from surefoot.losses import CrossEntropy, Lifted
from surefoot.optim import CSAM, SAM
from surefoot.params import flat
from surefoot.training.batches import Batches
from surefoot.training.loop import Training, train
from surefoot.training.observers import CalibrationObserver, CurvatureObserver, MarginsObserver
from surefoot.training.process_group import ProcessGroup
from surefoot.training.schedule import Schedule

WAYS: dict[str, tuple[Callable[[nn.Module], torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (lambda model: torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9), {}),
    "sum, clipped": (
        lambda model: torch.optim.SGD(model.parameters(), lr=0.02),
        {"reduction": "sum", "clip_grad_norm": 0.7},
    ),
    "adamw": (lambda model: torch.optim.AdamW(model.parameters(), lr=0.05), {}),
    "sam": (lambda model: SAM(model.parameters(), torch.optim.SGD, rho=0.1, lr=0.2), {}),
    "csam": (lambda model: CSAM(model.parameters(), torch.optim.SGD, rho=0.1, gamma=1.0, lr=0.2), {}),
}


def trained(way: str, group: ProcessGroup) -> tuple[torch.Tensor, list[dict[str, float]]]:
    """Weights and rows after 12 gradients in float64 on 23 samples in batches of 5, the last one of 3."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(23, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 3, (23,), generator=generator)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    make, options = WAYS[way]
    optimizer = make(model)
    training = Training(
        model=model,
        objective=Lifted(CrossEntropy()),
        optimizer=optimizer,
        batches=Batches(Split(inputs, labels), batch_size=5, seed=0),
        splits={"train": Split(inputs, labels), "test": Split(inputs[:1], labels[:1])},
        observers={
            "calibration": CalibrationObserver(),
            "margins": MarginsObserver(),
            "curvature": CurvatureObserver(),
        },
        process_group=group,
        descent=Lifted(optimizer.per_sample) if isinstance(optimizer, SAM) else None,
        **options,
    )
    rows: list[dict[str, float]] = []
    train(training, budget=12, schedule=Schedule(every=4, per_decade=0), record=rows.append)
    return flat([p.detach() for p in model.parameters()]), rows


def _work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.save({way: trained(way, ProcessGroup.current()) for way in WAYS}, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("processes")
    in_two_processes(_work, folder)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_are_one(together: list[dict[str, Any]], way: str) -> None:
    weights, rows = trained(way, ProcessGroup())
    for theirs, seen in (found[way] for found in together):
        torch.testing.assert_close(theirs, weights, rtol=1e-10, atol=1e-12)
        assert [row["step"] for row in seen] == [row["step"] for row in rows]
        for one, two in zip(rows, seen, strict=True):
            assert one.keys() == two.keys()
            for key, value in one.items():
                tolerance = 0.02 if "ggn" in key else 1e-8  # the curvature is certified to 2 %, not more
                assert two[key] == pytest.approx(value, rel=tolerance, abs=1e-10), key
    torch.testing.assert_close(together[0][way][0], together[1][way][0], rtol=0, atol=0)


def test_parts_hold_every_sample_once() -> None:
    for number in (0, 1, 2, 3, 7, 10):
        for count in (1, 2, 3):
            parts = [list(range(number))[ProcessGroup(rank, count).part(number)] for rank in range(count)]
            assert [sample for part in parts for sample in part] == list(range(number))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
