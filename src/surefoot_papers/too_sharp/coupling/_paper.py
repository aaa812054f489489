"""Table 1 of the paper (CIFAR-10, 5,000 images, MLP), and the settings here that come nearest to its cells."""

from collections.abc import Sequence

from surefoot.studies.correlation import NAMES, SPACING, Cells, Correlation
from surefoot.table import Cell, Table

# Mean and deviation over four learning rates.
PAPER = {
    ("train", "ece"): {
        "gd": (0.83, 0.08),
        "sgd": (0.84, 0.07),
        "adamw": (0.72, 0.07),
        "muon": (0.63, 0.26),
        "sam": (0.92, 0.04),
    },
    ("train", "kce"): {
        "gd": (0.83, 0.08),
        "sgd": (0.84, 0.07),
        "adamw": (0.70, 0.08),
        "muon": (0.61, 0.28),
        "sam": (0.91, 0.04),
    },
    ("test", "ece"): {
        "gd": (0.96, 0.02),
        "sgd": (0.97, 0.01),
        "adamw": (0.15, 0.15),
        "muon": (-0.10, 0.28),
        "sam": (0.98, 0.01),
    },
    ("test", "kce"): {
        "gd": (0.97, 0.01),
        "sgd": (0.97, 0.01),
        "adamw": (0.21, 0.22),
        "muon": (-0.16, 0.31),
        "sam": (0.98, 0.01),
    },
}
PAPERS_DATA = ("cifar10", "cifar10-5k")  # the data that the paper's table is of


def paper_cell(split: str, error: str, optimizer: str) -> str:
    """What the paper reports, as its table prints it."""
    reported = PAPER[split, error].get(optimizer)
    return "-" if reported is None else f"{reported[0]:.2f} ± {reported[1]:.2f}"


def nearest_to_paper(cells: Cells, optimizers: Sequence[str]) -> Table:
    """For each cell of the paper's table, the setting here whose r is nearest to it."""
    rows: list[tuple[Cell, ...]] = []
    for (split, error), reported in PAPER.items():
        for optimizer in [name for name in optimizers if name in reported]:
            best = _nearest(cells, optimizer, split, error, reported[optimizer][0])
            if best is not None:
                setting = f"{NAMES[best.sharpness]}, {SPACING[best.sampling]}, {best.window}"
                what = f"{split} {error.upper()}"
                rows.append((what, optimizer, paper_cell(split, error, optimizer), best.estimate, setting))
    return Table(
        name="nearest-to-paper",
        title="The setting here that comes nearest to each cell of the paper's Table 1",
        columns=("calibration error", "optimizer", "paper", "nearest here", "setting"),
        rows=tuple(rows),
        notes=("Picked after the fact among all settings: a hint at what the paper measured, not evidence.",),
    )


def _nearest(cells: Cells, optimizer: str, split: str, error: str, r: float) -> Correlation | None:
    distances = [
        (abs(item.mean - r), item)
        for item in cells.values()
        if (item.optimizer, item.split, item.error) == (optimizer, split, error)
        and item.sharpness != "batch"
        and item.mean is not None
        and item.n > 1
    ]
    return min(distances, key=lambda pair: pair[0])[1] if distances else None
