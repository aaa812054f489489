"""What a training step and a forward pass cost on a CPU, against the plain way: ratios within one run.

1. A gradient with freed memory kept for the next one over a gradient without, as training and as a user's own process
   has them; each in fresh processes that take turns, one thread.
2. A forward pass over 5,000 images of CIFAR-10's size in the parts that observers take, which for convolutions stay in
   the cache, over one in parts of 2,000, in one process, taking turns.

Usage: python benchmarks/stepping.py [--repeats 7] [--out results/benchmarks/stepping.md]
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from _record import benchmark_parser, provenance, write_tables
from _timing import median_and_range
from torch import Tensor, nn

from surefoot.models import MLP, ResNet
from surefoot.runs.allocator import keep_freed_memory
from surefoot.table import Table
from surefoot.training.snapshot import at_once

SHAPE = (3, 32, 32)
CASES: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "ResNet-8, a batch of 128": (lambda: ResNet(input_shape=SHAPE, num_classes=10, depth=8), 128),
    "tanh MLP 200-200, 5,000 images at once": (
        lambda: MLP(input_shape=SHAPE, num_classes=10, widths=(200, 200), activation="tanh"),
        5000,
    ),
}


def gradient_seconds(case: str, *, keep: bool, times: int = 15) -> float:
    """Median seconds of a gradient in this process."""
    if keep and not keep_freed_memory():
        raise SystemExit("The C library of this machine cannot keep freed memory.")
    make, size = CASES[case]
    model, inputs, labels = make(), torch.randn(size, *SHAPE), torch.randint(10, (size,))

    def gradient() -> None:
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]

    return statistics.median(seconds(gradient) for _ in range(times))


def seconds(do: Callable[[], object]) -> float:
    """Of one call."""
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def kept_over_not(case: str) -> float:
    """Ratio of the medians of two fresh processes, one after the other."""
    medians = []
    for keep in ("keep", "not"):
        command = [sys.executable, __file__, "--gradient", case, keep]
        medians.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return medians[0] / medians[1]


def parts_over_large(case: str) -> float:
    """Ratio of the times of two forward passes over 5,000 images, in parts for the cache and in parts of 2,000."""
    model, images = CASES[case][0]().eval(), torch.randn(5000, *SHAPE)

    @torch.no_grad()
    def forward(size: int) -> Tensor:
        return torch.cat([model(part) for part in images.split(size)])

    forward(2000)  # the first pass over new memory takes longer, whoever makes it
    ours, large = (
        statistics.median(seconds(lambda size=size: forward(size)) for _ in range(3))  # type: ignore[misc]
        for size in (at_once(model, images), 2000)
    )
    return ours / large


def main() -> None:
    """Measure and write the table."""
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--gradient", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.gradient:
        case, keep = arguments.gradient
        print(gradient_seconds(case, keep=keep == "keep"))
        return
    rows = []
    for what, measure in (
        ("gradient, freed memory kept / not kept", kept_over_not),
        ("5,000 images forward, in our parts / in parts of 2,000", parts_over_large),
    ):
        for case in CASES:
            measure(case)
            quotients = [measure(case) for _ in range(arguments.repeats)]
            rows.append((f"{what}; {case}", median_and_range(quotients, digits=2), arguments.repeats))
    table = Table(
        "stepping",
        "Training steps and forward passes on a CPU, one thread",
        ("quantity", "median (range)", "n"),
        tuple(rows),
        notes=(provenance(f"python benchmarks/stepping.py --repeats {arguments.repeats}"),),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
