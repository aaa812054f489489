"""What the optimizers cost: ratios within one run of this script, one thread.

1. A step of SAM and CSAM over a step of their base, where the gradient dominates (the small CNN, batches of 128).
2. What a SAM step costs beyond its two gradients and its base's step, ours over pytorch_optimizer's, on ten million
   parameters: the closure only hands out gradients made before.
3. Memory beyond the base's, in copies of the parameters.
4. A step of Muon over one of torch.optim.Muon, on the matrices of the 5k CIFAR MLP.
5. A step of SGD on the margin-aware objective over one on cross-entropy, at every step and at one of four.

Usage: python benchmarks/optim.py [--repeats 15] [--out results/benchmarks/optim.md]
"""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import pytorch_optimizer
import torch
from _record import benchmark_parser, provenance, write_tables
from _storage import Storage
from _timing import cpu_seconds, median_and_range
from torch import Tensor, nn

from surefoot.losses import Batch, CrossEntropy, Lifted, MarginAware
from surefoot.models import CNN, MLP
from surefoot.optim import ASAM, CSAM, SAM, SSAM, VASSO, Muon
from surefoot.table import Cell, Table

SGD = torch.optim.SGD
OPTIONS = {"lr": 1e-6, "momentum": 0.9}


def ratios(first: Callable[[], Any], second: Callable[[], Any], repeats: int) -> list[float]:
    """Times of the first over times of the second, measured in turns after one warm-up each."""
    first(), second()
    return [cpu_seconds(first) / cpu_seconds(second) for _ in range(repeats)]


def steps(repeats: int) -> list[tuple[Cell, ...]]:
    inputs, labels = torch.randn(128, 3, 32, 32), torch.arange(128) % 10
    rows: list[tuple[Cell, ...]] = []
    for kind in (SAM, CSAM):
        model = CNN(input_shape=(3, 32, 32), num_classes=10)
        plain = SGD(model.parameters(), **OPTIONS)
        optimizer = kind(model.parameters(), SGD, **OPTIONS)

        def base_closure(model: nn.Module = model, plain: Any = plain) -> Tensor:
            plain.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss.detach()

        def closure(model: nn.Module = model, optimizer: Any = optimizer) -> Tensor:
            loss = optimizer.loss(model(inputs), labels)
            loss.backward()
            return loss.detach()

        quotients = ratios(
            lambda o=optimizer, c=closure: [o.step(c) for _ in range(5)],
            lambda o=plain, c=base_closure: [o.step(c) for _ in range(5)],
            repeats,
        )
        rows.append(
            (f"a step of {kind.__name__} / of SGD, small CNN", median_and_range(quotients), len(quotients), "2.05")
        )
    return rows


def ten_million() -> list[nn.Parameter]:
    shapes = [(1000, 1000)] * 9 + [(1000,)] * 9 + [(512, 512)] * 4
    return [nn.Parameter(torch.randn(shape)) for shape in shapes]


def overhead(repeats: int) -> tuple[Cell, ...]:
    params = ten_million()
    gradients = [torch.randn_like(p) for p in params]
    ours = SAM(params, SGD, **OPTIONS)
    theirs = pytorch_optimizer.SAM(params, SGD, **OPTIONS)
    plain = SGD(params, **OPTIONS)

    def hand_out() -> Tensor:
        for p, gradient in zip(params, gradients, strict=True):
            p.grad = gradient
        return torch.zeros(())

    def step_of_theirs() -> None:
        hand_out()  # it wants a backward before the step
        theirs.step(hand_out)

    def step_of_base() -> None:
        hand_out()
        plain.step()

    def step_of_ours() -> None:
        ours.step(hand_out)

    for work in (step_of_ours, step_of_theirs, step_of_base):
        work(), work()
    quotients = []
    for _ in range(repeats):
        mine, base, other = cpu_seconds(step_of_ours), cpu_seconds(step_of_base), cpu_seconds(step_of_theirs)
        quotients.append((mine - base) / (other - base))
    number = sum(p.numel() for p in params)
    what = f"SAM beyond gradients and base, ours / pytorch_optimizer's, {number / 1e6:.1f} million parameters"
    return what, median_and_range(quotients), len(quotients), "0.5"


def memory() -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for kind in (SAM, ASAM, VASSO, SSAM, CSAM):
        params = [nn.Parameter(torch.randn(1000, 1000)) for _ in range(10)]
        gradients = [torch.randn_like(p) for p in params]
        size = sum(p.nbytes for p in params)

        def hand_out(params: Any = params, gradients: Any = gradients) -> Tensor:
            for p, gradient in zip(params, gradients, strict=True):
                p.grad = gradient
            return torch.zeros(())

        optimizer = kind(params, SGD, lr=1e-6)  # no momentum: what the base keeps does not count
        if kind is CSAM:
            optimizer._asked = True
        with Storage(smallest=1000) as storage:
            optimizer.step(hand_out)
        bar = "2" if kind is VASSO else "1"
        rows.append((f"memory of {kind.__name__} beyond the base", f"{storage.peak / size:.2f} copies", 1, bar))
    return rows


def muon(repeats: int) -> tuple[Cell, ...]:
    shapes = [(200, 3072), (200, 200)]
    params = [[nn.Parameter(torch.randn(shape)) for shape in shapes] for _ in range(2)]
    for p in (*params[0], *params[1]):
        p.grad = torch.randn_like(p)
    ours = Muon([{"params": params[0], "rule": "muon"}])
    theirs = torch.optim.Muon(params[1], lr=0.02)
    quotients = ratios(ours.step, theirs.step, repeats)
    return (
        "a step of Muon / of torch.optim.Muon, 200 x 3072 and 200 x 200",
        median_and_range(quotients),
        len(quotients),
        "-",
    )


def margin_aware(repeats: int) -> list[tuple[Cell, ...]]:
    batch = Batch(torch.randn(128, 3, 32, 32), torch.arange(128) % 10, torch.arange(128))
    rows: list[tuple[Cell, ...]] = []
    for name, kind in (("small CNN", CNN), ("MLP 200-200", MLP)):
        for every, bar in ((1, "3.0"), (4, "1.6")):
            model = kind(input_shape=(3, 32, 32), num_classes=10)
            plain = SGD(model.parameters(), **OPTIONS)
            ours = MarginAware(every=every)

            def four_steps(objective: Any, model: nn.Module = model, plain: Any = plain) -> None:
                for _ in range(4):  # one of them with both terms, where it is every fourth
                    plain.zero_grad()
                    objective(model, batch).mean().backward(inputs=list(model.parameters()))  # as surefoot's loop
                    plain.step()
                    if isinstance(objective, MarginAware):
                        objective.after_step(batch, batch.inputs)

            quotients = ratios(partial(four_steps, ours), partial(four_steps, Lifted(CrossEntropy())), repeats)
            how = "" if every == 1 else f", every {every}th step"
            rows.append(
                (
                    f"a step on margin_aware{how} / on cross-entropy, {name}",
                    median_and_range(quotients),
                    len(quotients),
                    bar,
                )
            )
    return rows


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = [*steps(arguments.repeats), overhead(arguments.repeats), *memory(), muon(arguments.repeats)]
    rows += margin_aware(arguments.repeats)
    made = provenance("make bench NAME=optim", peers=[f"pytorch_optimizer {version('pytorch_optimizer')}"])
    table = Table(
        name="optim",
        title="What the optimizers cost",
        columns=("quantity", "median (range)", "n", "at most"),
        rows=tuple(rows),
        notes=(made,),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
