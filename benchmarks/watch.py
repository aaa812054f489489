"""What a watch costs in a loop that is not surefoot's, in processor seconds.

python benchmarks/watch.py [--repeats 5] [--steps 2000] [--out results/benchmarks/watch.md]
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from _record import benchmark_parser, provenance, write_tables
from _timing import median_and_range
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from surefoot.data import digits
from surefoot.integrations import Watch, lightning_callback
from surefoot.models import CNN, MLP
from surefoot.table import Table
from surefoot.watch.watch import DEFAULT_OBSERVERS

EVERY = 100
BATCH = 50
HOOKS = (
    "on_fit_start",
    "on_train_start",
    "on_train_batch_end",
    "on_validation_epoch_start",
    "on_validation_batch_end",
    "on_validation_epoch_end",
    "on_fit_end",
)
DATA = digits(num_train=1200, images=True)
TRAIN = TensorDataset(DATA.train.inputs, DATA.train.labels)
TEST = TensorDataset(DATA.test.inputs, DATA.test.labels)
SHAPES = {"MLP": {"input_shape": (64,)}, "CNN": {"input_shape": (1, 8, 8)}}
NETWORKS = {"MLP": MLP, "CNN": CNN}


def observers(held_out: bool) -> tuple[str, ...]:
    """Calibration alone, as the bar has it; the defaults where there is none."""
    return DEFAULT_OBSERVERS if held_out else ("calibration",)


def network(seed: int, kind: str) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(*([nn.Flatten()] if kind == "MLP" else []), NETWORKS[kind](**SHAPES[kind], num_classes=10))


def plain(seed: int, *, kind: str, steps: int, held_out: bool) -> float:
    """Processor seconds of a plain loop under a watch over those outside its calls, of one run."""
    model = network(seed, kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    splits = {"test": DataLoader(TEST, batch_size=200)} if held_out else {}
    watching, done = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        watch = Watch(
            model, folder=folder, optimizer=optimizer, every=EVERY, splits=splits, observers=observers(held_out)
        )
        watching += time.process_time() - begun
        while done < steps:
            for inputs, labels in DataLoader(TRAIN, batch_size=BATCH, shuffle=True):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                stepped = time.process_time()
                watch.step((inputs, labels))
                watching += time.process_time() - stepped
                done += 1
                if done == steps:
                    break
        ended = time.process_time()
        watch.finish()
        watching += time.process_time() - ended
        whole = time.process_time() - begun
    return whole / (whole - watching)


def in_lightning(seed: int, *, kind: str, steps: int, held_out: bool) -> float:
    """Processor seconds of `fit` with the callback over those outside its hooks, of one run."""
    import lightning.pytorch as pl

    class Classifier(pl.LightningModule):
        """The same network."""

        def __init__(self) -> None:
            super().__init__()
            self.net = network(seed, kind)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.net(inputs)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch: Any, batch_idx: int) -> dict[str, Tensor]:
            return {"logits": self(batch[0]), "labels": batch[1]}

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    inside = 0.0

    def timed(hook: Callable[..., None]) -> Callable[..., None]:
        def call(*given: Any, **named: Any) -> None:
            nonlocal inside
            begun = time.process_time()
            hook(*given, **named)
            inside += time.process_time() - begun

        return call

    with tempfile.TemporaryDirectory() as folder:
        callback = lightning_callback(folder, every=EVERY, observers=observers(held_out))
        for name in HOOKS:
            setattr(callback, name, timed(getattr(callback, name)))
        trainer = pl.Trainer(
            max_steps=steps,
            max_epochs=-1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            val_check_interval=EVERY if held_out else None,
            check_val_every_n_epoch=None if held_out else 1,
            limit_val_batches=1.0 if held_out else 0,
            callbacks=[callback],
        )
        train, test = DataLoader(TRAIN, batch_size=BATCH, shuffle=True), DataLoader(TEST, batch_size=200)
        begun = time.process_time()
        trainer.fit(Classifier(), train, test)
        whole = time.process_time() - begun
    return whole / (whole - inside)


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Lightning's advice
    rows = []
    for kind in NETWORKS:
        for name, way in {"plain loop": plain, "Lightning's fit": in_lightning}.items():
            for held_out in (False, True):
                options = {"kind": kind, "held_out": held_out}
                way(99, steps=2 * EVERY, **options)  # warm-up
                ratios = [way(seed, steps=arguments.steps, **options) for seed in range(arguments.repeats)]
                seen = (
                    f"the batch and {len(TEST)} held-out samples: {', '.join(observers(held_out))}"
                    if held_out
                    else "the batch: calibration"
                )
                rows.append(
                    (kind, name, seen, median_and_range(ratios, digits=4), len(ratios), "-" if held_out else "1.03")
                )
    table = Table(
        name="watch",
        title=(
            f"Processor seconds with a watch over without (digits, MLP 64-200-200-10 and CNN 16-32-64, batches of "
            f"{BATCH}, {arguments.steps:,} steps, a look each {EVERY}; one thread)"
        ),
        columns=("network", "loop", "looks at", "ratio, median (range)", "n", "at most"),
        rows=tuple(rows),
        notes=(
            "Within one run: seconds inside the watch's own calls against the others. In the plain loop a look at "
            "held-out samples has their forward pass in it, which a loop that evaluates them does anyway; Lightning "
            "validates them each time, and the callback takes the logits from there.",
            provenance(
                f"python benchmarks/watch.py --repeats {arguments.repeats} --steps {arguments.steps}",
                seeds=arguments.repeats,
            ),
        ),
    )
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
