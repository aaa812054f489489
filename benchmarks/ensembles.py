"""Every ensemble on a small task: accuracy, ECE and NLL on test samples, and its cost beside one plain network.

digits (scikit-learn, 1x8x8, 1,000 to train on, a fifth of all labels replaced) with the small CNN, without
augmentation; SGD with momentum 0.9, weight decay 5e-4, cosine learning rate from 0.05, 400 steps of batches of 64. SWAG
collects every 16 steps of the second half, at a constant rate; bSAM is its own optimizer, at its default rate, with the
prior that decays as much. Costs are processor time of training and of predicting the test samples, divided by that
of the plain network with the same seed.

Usage: python benchmarks/ensembles.py [--seeds 3] [--out results/benchmarks/ensembles.md]
"""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from _record import benchmark_parser, provenance, write_tables
from scipy.special import stdtrit
from torch import Tensor

from surefoot.data import Split, digits
from surefoot.ensembles import (
    MIMO,
    SWAG,
    BatchEnsemble,
    BSAMSampling,
    DeepEnsemble,
    Ensemble,
    MCDropout,
    Rank1,
    Variational,
    with_dropout,
)
from surefoot.losses import CrossEntropy
from surefoot.metrics import ece, nll
from surefoot.models import CNN
from surefoot.optim import BSAM
from surefoot.predictions import Predictions
from surefoot.table import Cell, Table
from surefoot.training.batches import Batches

NUM_STEPS, NUM_TRAIN, DECAY = 400, 1000, 5e-4
QUANTITIES = ("accuracy", "ECE", "NLL", "training, times", "prediction, times")


def network() -> CNN:
    return CNN(input_shape=(1, 8, 8), num_classes=10, widths=(16, 32))


def ensembles(train: Split) -> dict[str, Callable[[], Ensemble]]:
    variational: dict[str, Any] = {"num_train": NUM_TRAIN, "anneal_steps": NUM_STEPS * 4 // 5}
    return {
        "plain": lambda: DeepEnsemble([network()]),
        "deep ensemble of 4": lambda: DeepEnsemble([network() for _ in range(4)]),
        "MC-Dropout, rate 0.1, 5 draws": lambda: MCDropout(with_dropout(network(), rate=0.1), num_samples=5),
        "BatchEnsemble of 4": lambda: BatchEnsemble(network()),
        "Rank-1 of 4": lambda: Rank1(network(), **variational),
        "variational, 5 draws": lambda: Variational(network(), **variational),
        "MIMO of 3": lambda: MIMO(network()),
        "SWAG, 30 draws": lambda: SWAG(network(), batches=list(train.inputs.split(500))),
        "bSAM, 32 draws": lambda: BSAMSampling(network()),
    }


def measured(make: Callable[[], Ensemble], train: Split, test: Split, seed: int) -> tuple[float, ...]:
    torch.manual_seed(seed)
    ensemble = make()
    objective = ensemble.objective(CrossEntropy())
    optimizer: Any = (
        BSAM(ensemble.parameters(), num_samples=NUM_TRAIN, prior_precision=DECAY * NUM_TRAIN)
        if isinstance(ensemble, BSAMSampling)
        else torch.optim.SGD(ensemble.parameters(), lr=0.05, momentum=0.9, weight_decay=DECAY)
    )
    length = 2 * NUM_STEPS if isinstance(ensemble, SWAG) else NUM_STEPS
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length)
    batches = Batches(train, batch_size=64, seed=seed)
    begun = time.process_time()
    for step in range(NUM_STEPS):
        batch = batches(step)

        def closure(batch: Any = batch) -> Tensor:
            optimizer.zero_grad()
            loss = objective(ensemble, batch).mean()
            loss.backward()
            return loss.detach()

        optimizer.step(closure)
        if not isinstance(ensemble, SWAG) or step < NUM_STEPS // 2:
            scheduler.step()
        elif step % 16 == 0:
            ensemble.collect(ensemble.model)
    if isinstance(ensemble, BSAMSampling):
        ensemble.collect(ensemble.model, optimizer)
    middle = time.process_time()
    probabilities = ensemble.predict(test.inputs)
    ended = time.process_time()
    predictions = Predictions.from_probabilities(probabilities, test.labels)
    accuracy = float(predictions.correct.double().mean())
    return accuracy, float(ece(predictions)), float(nll(predictions)), middle - begun, ended - middle


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds must be at least 2, for an interval, got {arguments.seeds}")
    torch.set_num_threads(1)
    data = digits(num_train=NUM_TRAIN, noisy_labels=0.2)
    train, test = (Split(split.inputs.reshape(-1, 1, 8, 8), split.labels) for split in (data.train, data.test))
    measured(network_alone := ensembles(train)["plain"], train, test, 0)  # the first run pays for what is loaded late
    plain = [measured(network_alone, train, test, seed) for seed in range(arguments.seeds)]
    rows: list[tuple[Cell, ...]] = []
    for name, make in ensembles(train).items():
        scores = plain if name == "plain" else [measured(make, train, test, seed) for seed in range(arguments.seeds)]
        cells = []
        for place in range(len(QUANTITIES)):
            values = [run[place] / (one[place] if place > 2 else 1) for run, one in zip(scores, plain, strict=True)]
            if place > 2:
                cells.append(f"{statistics.median(values):.1f}")
                continue
            mean, std = statistics.mean(values), statistics.stdev(values)
            half = float(stdtrit(len(values) - 1, 0.975)) * std / math.sqrt(len(values))
            cells.append(f"{mean:.3f} [{max(mean - half, 0):.3f}, {mean + half:.3f}]")
        rows.append((name, *cells, len(scores)))
        print(*rows[-1], flush=True)
    made = provenance(f"python benchmarks/ensembles.py --seeds {arguments.seeds}", seeds=arguments.seeds)
    table = Table(
        name="ensembles",
        title=f"Ensembles of the small CNN on digits with noisy labels, {len(test.labels)} test samples",
        columns=("ensemble", *QUANTITIES, "n"),
        rows=tuple(rows),
        notes=(
            "Mean over n seeds and, in brackets, its 95 % t-interval; costs are processor time, the median over seeds "
            f"of the ratio to the plain network. Equal numbers of steps ({NUM_STEPS}).",
            made,
        ),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
