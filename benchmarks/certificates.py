"""What certificates cost, in gradients of all the data, and in forward passes for the side of the calibration error.

The tanh MLP 3072-200-200-10 on the first 5,000 images of CIFAR-10, after 50 steps of gradient descent; set-up counted,
attack steps apart. CPU seconds on one thread over those of one gradient (one forward pass), medians. Then each cheap
estimate over the exact value that it stands for. SUREFOOT_DATA must name the folder with CIFAR-10.

Usage: python benchmarks/certificates.py [--repeats 5] [--out results/benchmarks/certificates.md]
"""

import statistics
from collections.abc import Callable
from typing import Any

import torch
from _record import benchmark_parser, provenance, write_tables
from _timing import cpu_seconds, median_and_range
from torch import Tensor, nn

from surefoot.attack import worst_shift
from surefoot.curvature import GGN, eigenpairs
from surefoot.data import cifar10_5k
from surefoot.losses import CrossEntropy
from surefoot.models import MLP
from surefoot.predictions import Predictions
from surefoot.table import Table
from surefoot.theory import (
    calibration_certificates,
    curvature_certificates,
    input_gradient_margins,
    low_rank_sharpness,
    margin_lipschitz,
    mini_batch,
    robust_calibration_certificates,
    robust_margin_floor,
    sam_certificates,
    sample_curvature,
    tail,
)

RADIUS = 0.1
LR = 2 / 40
Work = Callable[[], Any]


def measured_parts(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[dict[str, Work], dict[str, Work]]:
    """All certificates by name, and beside them the attack and the cheap estimates."""

    def sharpness() -> float:
        matrix = GGN(model, CrossEntropy(), inputs, labels)
        return eigenpairs(matrix.__matmul__, matrix.like, tolerance=0.01)[0].value

    with torch.no_grad():
        predictions = Predictions(model(inputs), labels)
    samples, value = sample_curvature(model, inputs), sharpness()
    attacked = worst_shift(model, inputs, labels, radius=RADIUS, num_steps=20).margin.minimum(predictions.margin)
    floor = robust_margin_floor(model, inputs, labels, radius=RADIUS, norm="l2")
    slopes = margin_lipschitz(model, labels, norm="l2")

    def shift() -> None:
        worst_shift(model, inputs, labels, radius=RADIUS, num_steps=20)

    def calibration() -> None:
        fresh = Predictions(predictions.logits, labels)  # nothing of it computed yet
        calibration_certificates(fresh)
        tail(fresh.margin)

    parts: dict[str, Work] = {
        "calibration side: B.1-B.3, 4.1 (i), 4.2 (i), (v), ours, tail": calibration,
        "||J_i|| and the sharpness of every sample": lambda: sample_curvature(model, inputs),
        "the sharpness, certified to 1 % at 95 %": sharpness,
        "curvature side from these: B.4, B.6, 4.1 (ii), 4.2 (ii), (iii), ours": lambda: curvature_certificates(
            Predictions(predictions.logits, labels), samples, value, attacked=attacked
        ),
        "robust margins from below, and L_m": lambda: (
            robust_margin_floor(model, inputs, labels, radius=RADIUS, norm="l2"),
            margin_lipschitz(model, labels, norm="l2"),
        ),
        "robust side from these: B.5, B.7, 4.1 (i), 4.2 (iv)": lambda: robust_calibration_certificates(
            predictions, attacked, radius=RADIUS, floor=floor, lipschitz=slopes
        ),
        "SAM's climb on 64 samples, 5 points of its path: lemmas 1-2, theorems 1-3": lambda: sam_certificates(
            model, inputs[:64], labels[:64], rho=0.05, num_points=5
        ),
    }
    apart = {"the attack (10 rivals, then 2 x 20 steps), apart": shift}
    estimates: dict[str, Work] = {
        "estimate: tail and bound from 64 samples": lambda: mini_batch(model, inputs, labels, size=64, seed=0),
        "estimate: sharpness of every sample by rank 1": lambda: low_rank_sharpness(model, inputs, rank=1),
        "estimate: robust margins by input gradients": lambda: input_gradient_margins(
            model, inputs, labels, radius=RADIUS, norm="l2"
        ),
    }
    return parts, {**apart, **estimates}


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = cifar10_5k()
    inputs, labels = data.train.inputs, data.train.labels
    model = MLP(input_shape=data.input_shape, num_classes=10, widths=(200, 200), activation="tanh")

    def gradient() -> None:
        model.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()

    for _ in range(50):
        gradient()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(p.grad, alpha=LR)

    def forward() -> Predictions:
        with torch.no_grad():
            return Predictions(model(inputs), labels)

    parts, beside = measured_parts(model, inputs, labels)
    rows = []
    total: list[float] = [0.0] * arguments.repeats
    for name, work in {**parts, **beside}.items():
        work()
        costs = []
        for repeat in range(arguments.repeats):
            unit, once = cpu_seconds(gradient), cpu_seconds(forward)
            spent = cpu_seconds(work)
            costs.append((spent / unit, spent / once))
            if name in parts:
                total[repeat] += spent / unit
        gradients, forwards = (statistics.median(column) for column in zip(*costs, strict=True))
        rows.append((name, f"{gradients:.2f}", f"{forwards:.2f}", len(costs)))
        print(*rows[-1], flush=True)
    rows.append(("all certificates together, the attack apart", median_and_range(total, digits=1), "-", len(total)))
    table = Table(
        "certificates",
        "What certificates cost: tanh MLP 3072-200-200-10, 5,000 CIFAR-10 images",
        ("what", "gradients", "forward passes", "n"),
        tuple(rows),
        notes=(
            "Bars: the calibration side below 1 forward pass; all together, the attack apart, at most 40 gradients.",
            provenance("python benchmarks/certificates.py"),
        ),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
