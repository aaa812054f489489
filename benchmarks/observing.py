"""What observing costs: ratios within one run of this script, never times across machines.

1. Time spent observing over time spent stepping, in the same GD run on the digits MLP, observed at 1 % of its steps:
   the two alternate, so that a machine that slows down slows both. A Gauss-Newton product, in gradients.
2. What a run costs beyond its steps in a worker that is warm: building, folder, records, checkpoint.
3. How far the tracked sharpness is from one measured from scratch to a hundredth of the tolerance, at the same weights.

Usage: python benchmarks/observing.py [--repeats 5] [--out results/benchmarks/observing.md]
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from _record import benchmark_parser, provenance, write_tables
from _timing import median_and_range

from surefoot.curvature import GGN, eigenpairs
from surefoot.losses import Lifted
from surefoot.params import flat
from surefoot.runs.build import build
from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import DEFAULT_OBSERVERS, RunSpec
from surefoot.table import Table
from surefoot.training.loop import train
from surefoot.training.schedule import Schedule

STEPS = 1000
SPEC = {
    "optimizer": {"name": "gd", "lr": 0.25},
    "budget": STEPS,
    "data": {"name": "digits", "num_train": 1200, "noisy_labels": 0.4},
}


def observing(splits: Sequence[str], seed: int, stop: str = "bound") -> float:
    """Time of all observations over time of all steps of one run."""
    training = build(RunSpec.from_dict({**SPEC, "seed": seed, "observers": {"curvature": {"stop": stop}}}))
    training.splits = {name: training.splits[name] for name in splits}
    stepping = observing_time = 0.0
    for step in range(STEPS + 1):
        if step % 100 == 0:
            begun = time.perf_counter()
            training.observe()
            observing_time += time.perf_counter() - begun
        begun = time.perf_counter()
        training.advance()
        stepping += time.perf_counter() - begun
    return observing_time / stepping


def product_in_gradients(seed: int) -> tuple[float, float]:
    """Cost of building a GGN and of one product with it, in units of one optimizer step with its gradient."""
    training = build(RunSpec.from_dict({**SPEC, "seed": seed}))
    assert isinstance(training.objective, Lifted)
    split, loss = training.splits["train"], training.objective.loss
    stepping = building = multiplying = 0.0
    for _ in range(30):
        begun = time.perf_counter()
        training.advance()
        stepped = time.perf_counter()
        ggn = GGN(training.model, loss, split.inputs, split.labels)
        built = time.perf_counter()
        ggn @ flat([p.detach() for p in ggn.params])
        multiplied = time.perf_counter()
        stepping += stepped - begun
        building += built - stepped
        multiplying += multiplied - built
    return building / stepping, multiplying / stepping


def overhead(repeats: int) -> list[float]:
    """Seconds of whole runs of one step in this warm process."""
    seconds = []
    spec = RunSpec.from_dict({**SPEC, "budget": 1, "observers": dict.fromkeys(DEFAULT_OBSERVERS, False)})
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats + 1):
            begun = time.perf_counter()
            run(spec, RunFolder(Path(folder) / str(repeat)))
            seconds.append(time.perf_counter() - begun)
    return seconds[1:]  # the first one imports and warms up


def tracking_errors(seed: int) -> list[float]:
    """Relative errors of the tracked values of a run through the edge of stability."""
    training = build(RunSpec.from_dict({**SPEC, "seed": seed}))
    errors = []

    def compare(row: dict[str, float]) -> None:
        assert isinstance(training.objective, Lifted)
        split = training.splits["train"]
        ggn = GGN(training.model, training.objective.loss, split.inputs, split.labels)
        generator = torch.Generator().manual_seed(7)
        (truth,) = eigenpairs(ggn.__matmul__, ggn.like, tolerance=1e-4, max_matvecs=200, generator=generator)
        assert truth.converged
        errors.append(abs(row["train/ggn_sharpness"] - truth.value) / truth.value)

    train(training, budget=STEPS, schedule=Schedule(every=20, per_decade=5), record=compare)
    return errors


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    observing(["train"], 0)  # warm-up
    one = [1 + observing(["train"], seed) for seed in range(arguments.repeats)]
    quick = [1 + observing(["train"], seed, "residual") for seed in range(arguments.repeats)]
    both = [1 + observing(["train", "test"], seed) for seed in range(arguments.repeats)]
    building, multiplying = zip(*(product_in_gradients(seed) for seed in range(arguments.repeats)), strict=True)
    beyond = overhead(arguments.repeats)
    errors = tracking_errors(0) + tracking_errors(1)
    time_of = "time with ECE, KCE, margins and GN sharpness at 1 % of the steps / without"
    accuracy = f"{statistics.median(errors):.0e} (largest {max(errors):.0e})"
    table = Table(
        name="observing",
        title="What observing costs (digits MLP 64-200-200-10, 1,200 images, GD, 1,000 steps, one thread)",
        columns=("quantity", "median (range)", "n", "at most"),
        rows=(
            (f"{time_of}, of the training set, certified", median_and_range(one), len(one), "1.15"),
            (f"{time_of}, of the training set, stopped on the residual", median_and_range(quick), len(quick), "1.15"),
            (f"{time_of}, of training and test set, certified", median_and_range(both), len(both), "-"),
            ("building a Gauss-Newton matrix / one gradient", median_and_range(building), len(building), "-"),
            ("one product with it / one gradient", median_and_range(multiplying), len(multiplying), "-"),
            ("seconds of a run beyond its steps, in a warm worker", median_and_range(beyond), len(beyond), "1"),
            ("relative error of the tracked sharpness", accuracy, len(errors), "1e-2"),
        ),
        notes=(provenance(f"python benchmarks/observing.py --repeats {arguments.repeats}", seeds=arguments.repeats),),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
