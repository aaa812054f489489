"""SGD, SAM and CSAM on two small tasks: accuracy, ECE and TCE on test samples, with intervals over seeds.

digits (scikit-learn, 1x8x8, 1,000 to train on, a fifth of all labels replaced) and the first 2,000 images of CIFAR-10,
both with the small CNN, without augmentation; SGD with momentum 0.9, weight decay 5e-4, cosine learning rate from 0.05,
batches of 64; the same for SAM and CSAM, whose base it is. Half of the test samples fit the temperature of TCE, the
other half give all numbers. CSAM also with its two rules for gamma: from half of the steps on, and by the gap between
confidence and accuracy on the batches (full at 0.05).

Usage: python benchmarks/csam.py [--seeds 3] [--out results/benchmarks/csam.md]
"""

from collections.abc import Callable
from typing import Any

import torch
from _record import benchmark_parser, provenance, write_tables
from torch import Tensor, nn

from surefoot.data import Split, cifar10_5k, digits
from surefoot.metrics import ece
from surefoot.models import CNN
from surefoot.optim import CSAM, SAM
from surefoot.posthoc import Temperature
from surefoot.predictions import Predictions
from surefoot.studies.intervals import t_interval
from surefoot.table import Cell, Table
from surefoot.training.batches import Batches

BASE: dict[str, Any] = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}
RHO = 0.05
QUANTITIES = ("accuracy", "ECE", "TCE")
Task = tuple[Split, Split, tuple[int, ...], int]  # train, test, the CNN's widths, steps


def tasks() -> dict[str, Task]:
    small, images = digits(num_train=1000, noisy_labels=0.2), cifar10_5k(num_train=2000)
    shaped = [Split(split.inputs.reshape(-1, 1, 8, 8), split.labels) for split in (small.train, small.test)]
    return {
        "digits": (shaped[0], shaped[1], (16, 32), 16 * 40),
        "cifar10, 2,000 images": (images.train, images.test, (16, 32, 64), 32 * 30),
    }


def optimizers(steps: int) -> dict[str, Callable[[Any], torch.optim.Optimizer]]:
    sgd = torch.optim.SGD
    return {
        "SGD": lambda params: sgd(params, **BASE),
        "SAM": lambda params: SAM(params, sgd, rho=RHO, **BASE),
        "CSAM, gamma 1": lambda params: CSAM(params, sgd, rho=RHO, gamma=1.0, **BASE),
        "CSAM, gamma 2": lambda params: CSAM(params, sgd, rho=RHO, gamma=2.0, **BASE),
        "CSAM, gamma 1 from half on": lambda params: CSAM(params, sgd, rho=RHO, gamma=1.0, onset=steps // 2, **BASE),
        "CSAM, gamma 1 by the gap": lambda params: CSAM(params, sgd, rho=RHO, gamma=1.0, full_gap=0.05, **BASE),
    }


def trained(task: Task, make: Callable[[Any], torch.optim.Optimizer], seed: int) -> tuple[float, float, float]:
    train, test, widths, steps = task
    torch.manual_seed(seed)
    model = CNN(input_shape=tuple(train.inputs.shape[1:]), num_classes=10, widths=widths)
    optimizer: Any = make(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    batches = Batches(train, batch_size=64, seed=seed)
    for step in range(steps):
        batch = batches(step)

        def closure(batch: Any = batch) -> Tensor:
            optimizer.zero_grad()
            logits = model(batch.inputs)
            if isinstance(optimizer, SAM):
                loss = optimizer.loss(logits, batch.labels)
            else:
                loss = nn.functional.cross_entropy(logits, batch.labels)
            loss.backward()
            return loss.detach()

        optimizer.step(closure)
        scheduler.step()
    model.eval()
    with torch.no_grad():
        logits = model(test.inputs)
    half = len(test.labels) // 2
    calibration = Predictions(logits[:half], test.labels[:half])
    rest = Predictions(logits[half:], test.labels[half:])
    scaled = Predictions(Temperature.fit(calibration)(rest.logits), rest.labels)
    accuracy = float((rest.logits.argmax(dim=1) == rest.labels).double().mean())
    return accuracy, float(ece(rest)), float(ece(scaled))


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[tuple[Cell, ...]] = []
    for name, task in tasks().items():
        for method, make in optimizers(task[3]).items():
            scores = [trained(task, make, seed) for seed in range(arguments.seeds)]
            cells = []
            for values in zip(*scores, strict=True):
                low, high = t_interval(values) or (float("nan"), float("nan"))
                cells.append(f"{sum(values) / len(values):.3f} [{max(low, 0):.3f}, {high:.3f}]")
            rows.append((name, method, *cells, len(scores)))
            print(*rows[-1], flush=True)
    made = provenance(f"python benchmarks/csam.py --seeds {arguments.seeds}", seeds=arguments.seeds)
    table = Table(
        name="csam",
        title="SGD, SAM and CSAM with the small CNN, on test samples",
        columns=("data", "optimizer", *QUANTITIES, "n"),
        rows=tuple(rows),
        notes=(
            "Mean over n seeds and, in brackets, its 95 % t-interval. TCE: ECE after a temperature fitted on the other "
            "half of the test samples. Equal numbers of steps: SAM and CSAM take two gradients each. rho 0.05.",
            made,
        ),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
