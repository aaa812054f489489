"""What a loss costs: ratios within one run of this script, never times across machines.

1. A training step with every loss and objective over one with cross-entropy: the small CNN on 128 random images of
   3x32x32 in 100 classes, SGD, one thread. The two alternate, so that a machine that slows down slows both; the median
   of the ratios of neighbouring steps. What an objective does after a step is part of the step; what happens once
   per epoch is not.
2. CPC with 1,000 classes: the time that value and gradient of 128 samples take, and the most memory.

Usage: python benchmarks/losses.py [--repeats 40] [--out results/benchmarks/losses.md]
"""

import resource
import statistics
from collections.abc import Callable
from typing import Any

import torch
from _record import benchmark_parser, provenance, write_tables
from _timing import cpu_seconds

from surefoot.losses import CPC, LOSSES, OBJECTIVES, Batch, CrossEntropy, Lifted, Objective, memory_of
from surefoot.models import CNN
from surefoot.runs.check_options import options_of
from surefoot.table import Cell, Table

NUM_SAMPLES, NUM_CLASSES = 128, 100
BAR = {  # two passes; another head; gradients in the inputs. 1.1 for all others
    "mit_l": 2.2,
    "macs": 2.2,
    "balcal": 1.2,
    "adversarial": 3.0,
    "input_gradient": 4.0,
    "margin_aware": 3.0,
}
WIDTHS = (16, 32, 128)  # at least as many features as classes, which BalCAL needs


def stepping(name: str) -> Callable[[], None]:
    """A function that does one training step with the loss or objective of that name."""
    torch.manual_seed(0)
    model: torch.nn.Module = CNN(input_shape=(3, 32, 32), num_classes=NUM_CLASSES, widths=WIDTHS)
    make: Any = {**LOSSES, **OBJECTIVES}[name]
    if hasattr(make, "wrapped"):
        model = make.wrapped(model)
    available = {"model": model, "num_samples": NUM_SAMPLES}
    made = make(**{key: available[key] for key in options_of(make).keys() & available.keys()})
    objective: Objective = Lifted(made) if name in LOSSES else made
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    memory = memory_of(objective)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(NUM_SAMPLES, 3, 32, 32, generator=generator)
    labels = torch.randint(NUM_CLASSES, (NUM_SAMPLES,), generator=generator)
    batch = Batch(images, labels, torch.arange(NUM_SAMPLES))
    logits = torch.randn(2, NUM_SAMPLES, NUM_CLASSES) if name == "balcal" else torch.randn(NUM_SAMPLES, NUM_CLASSES)

    def step() -> None:
        optimizer.zero_grad()
        objective(model, batch).mean().backward()
        optimizer.step()
        if memory is not None:
            memory.after_step(batch, logits)

    return step


def ratios(ours: Callable[[], None], theirs: Callable[[], None], repeats: int) -> list[float]:
    """Times of ours over times of theirs, each pair taken in both orders by turns, the first pairs left out."""
    quotients = []
    for turn in range(repeats + 3):
        first, second = (ours, theirs) if turn % 2 else (theirs, ours)
        times = {first: cpu_seconds(first)}
        times[second] = cpu_seconds(second)
        quotients.append(times[ours] / times[theirs])
    return quotients[3:]


def row(name: str, ours: Callable[[], None], theirs: Callable[[], None], bar: float, repeats: int) -> tuple[Cell, ...]:
    quotients = sorted(ratios(ours, theirs, repeats))
    low, high = quotients[len(quotients) // 4], quotients[3 * len(quotients) // 4]
    median = statistics.median(quotients)
    within = "yes" if median <= bar else "no"
    print(f"{name}: {median:.3f} [{low:.3f}, {high:.3f}]", flush=True)
    return name, f"{median:.3f}", f"{low:.3f} to {high:.3f}", f"{bar:g}", within, len(quotients)


def cpc_of_a_thousand(repeats: int) -> str:
    """What CPC with 1,000 classes takes, in a sentence."""
    logits = torch.randn(128, 1000, requires_grad=True)
    labels = torch.arange(128)

    def doing(loss: Any) -> Callable[[], None]:
        return lambda: torch.autograd.grad(loss(logits, labels).mean(), logits) and None

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    doing(CPC())()
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    ours, theirs = (min(cpu_seconds(doing(loss)) for _ in range(repeats)) for loss in (CPC(), CrossEntropy()))
    return (
        f"CPC of 128 samples and 1,000 classes: value and gradient take {ours:.2f} s where cross-entropy's take "
        f"{1000 * theirs:.1f} ms (the fastest of {repeats} each), and raise the most memory the process has held by "
        f"{more:.0f} MB; all pairs at once would be 512 MB for each array of them."
    )


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    line = cpc_of_a_thousand(5)  # first: memory once held hides what comes after
    print(line, flush=True)
    theirs = stepping("cross_entropy")
    rows = [row(name, stepping(name), theirs, BAR.get(name, 1.1), arguments.repeats) for name in (*LOSSES, *OBJECTIVES)]
    table = Table(
        name="losses",
        title="A training step over one with cross-entropy",
        columns=("loss", "median ratio", "middle half", "bar", "within", "n"),
        rows=tuple(rows),
        notes=(
            f"The small CNN of widths {WIDTHS} on {NUM_SAMPLES} random images of 3x32x32 in {NUM_CLASSES} classes, SGD "
            "with momentum. n pairs of neighbouring steps; cross_entropy against itself shows the noise.",
            line,
            provenance(f"python benchmarks/losses.py --repeats {arguments.repeats}"),
        ),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
