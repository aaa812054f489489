"""What observing costs: ratios within one run of this script, never times across machines.

1. The time of a GD run on the digits MLP with all observers at 1 % of the steps, over that of the same run without.
2. What a run costs beyond its steps in a worker that is warm: building, folder, records, checkpoint.
3. How far the tracked sharpness is from the one measured to a tolerance of 1e-6 at the same weights.

Usage: python benchmarks/observing.py [--repeats 5] [--out results/benchmarks/observing.md]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from surefoot.curvature import GGN, top_eigenpair, warm_start
from surefoot.files import write_atomically
from surefoot.losses import Lifted
from surefoot.params import flat
from surefoot.runs.build import build
from surefoot.runs.origin import commit, hardware, versions
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.runs.store import RunFolder
from surefoot.table import Table
from surefoot.training.loop import Training, train
from surefoot.training.schedule import Schedule

STEPS = 1000
SPEC = {
    "optimizer": {"name": "gd", "lr": 0.25},
    "budget": STEPS,
    "data": {"name": "digits", "num_train": 1200, "noisy_labels": 0.4},
    "schedule": {"every": 100, "per_decade": 0},
}


def seconds(training: Training, every: int) -> float:
    begun = time.process_time()
    train(training, budget=STEPS, schedule=Schedule(every=every, per_decade=0), record=lambda row: None)
    return time.process_time() - begun


def observing_ratio(repeats: int) -> tuple[list[float], list[float]]:
    """Ratios of watched to plain time, and of each observer set, one per repeat; each pair is run back to back."""
    spec = RunSpec.from_dict(SPEC)
    watched, noise = [], []
    seconds(build(spec), every=100)  # warm-up
    for repeat in range(repeats):
        trainings = []
        for observers in ({}, spec.to_dict()["observers"], {}):
            trainings.append(build(RunSpec.from_dict({**spec.to_dict(), "observers": observers, "seed": repeat})))
        plain, with_observers, plain_again = (seconds(training, every=100) for training in trainings)
        watched.append(with_observers / ((plain + plain_again) / 2))
        noise.append(max(plain, plain_again) / min(plain, plain_again))
    return watched, noise


def overhead(repeats: int) -> list[float]:
    """Seconds of a whole run of one step in this warm process, less the step's own time."""
    found = []
    spec = RunSpec.from_dict({**SPEC, "budget": 1, "observers": {}})
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats + 1):
            begun = time.process_time()
            run(spec, RunFolder(Path(folder) / str(repeat)))
            found.append(time.process_time() - begun)
    return found[1:]  # the first one imports and warms up


def tracking_error() -> list[float]:
    """Relative error of every tracked value of a run through the edge of stability."""
    training = build(RunSpec.from_dict(SPEC))
    errors = []

    def compare(row: dict[str, float]) -> None:
        assert isinstance(training.objective, Lifted)
        split = training.splits["train"]
        ggn = GGN(training.model, training.objective.loss, split.inputs, split.labels)
        start = warm_start(
            None, like=flat([p.detach() for p in ggn.params]), generator=torch.Generator().manual_seed(7)
        )
        truth = top_eigenpair(ggn.__matmul__, start, tolerance=1e-4, max_matvecs=200)
        assert truth.converged
        errors.append(abs(row["train/ggn_sharpness"] - truth.value) / truth.value)

    train(training, budget=STEPS, schedule=Schedule(every=20, per_decade=5), record=compare)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/observing.md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    watched, noise = observing_ratio(arguments.repeats)
    beyond = overhead(arguments.repeats)
    errors = tracking_error()
    ratios = f"{statistics.median(watched):.3f} ({min(watched):.3f} to {max(watched):.3f})"
    table = Table(
        name="observing",
        title="What observing costs (digits MLP 64-200-200-10, 1,200 images, GD, one thread)",
        columns=("quantity", "measured: median (range)", "n", "to reach"),
        rows=(
            ("time with ECE, margins and GN sharpness of train and test at 1 % of the steps / without", ratios, len(watched), "1.15"),
            ("the same run twice without observers, longer / shorter: the noise", f"{statistics.median(noise):.3f} ({min(noise):.3f} to {max(noise):.3f})", len(noise), "-"),
            ("seconds of a run beyond its steps, in a warm worker", f"{statistics.median(beyond):.3f} ({min(beyond):.3f} to {max(beyond):.3f})", len(beyond), "1"),
            ("relative error of the tracked sharpness", f"{statistics.median(errors):.1e} (largest {max(errors):.1e})", len(errors), "1e-2"),
        ),
        notes=(
            f"Made by `python benchmarks/observing.py --repeats {arguments.repeats}` at commit {commit()}, {versions()}, {hardware()}.",
        ),
    )  # fmt: skip
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(arguments.out, table.markdown().encode())
    print(table.markdown())


if __name__ == "__main__":
    main()
