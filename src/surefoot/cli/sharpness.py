"""`surefoot sharpness`: the curvature of a run's network, with its proof."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.cli.request import check_path, request
from surefoot.table import Cell, Table, finite_or_none

if TYPE_CHECKING:
    from surefoot.curvature import Eigenpair
    from surefoot.training.loop import Training

MATRICES = {"ggn": "Gauss-Newton matrix", "hessian": "Hessian"}


@dataclass
class SharpnessCommand:
    """Measure the largest (or smallest) curvature eigenvalues of a run's network, at its last checkpoint.

    Each eigenvalue lies between `value`, which is certain, and `bound`, which holds with probability 1 - delta. Above
    2 / lr gradient descent is unstable. Batch norm uses its running statistics.

    Example: surefoot sharpness runs/train/0123abcd4567 --matrix hessian --num 3
    """

    run: tyro.conf.Positional[Path]
    """Folder of a run, or a checkpoint in it."""
    matrix: Literal["both", "ggn", "hessian"] = "both"
    """Gauss-Newton matrix, Hessian, or both."""
    end: Literal["largest", "smallest"] = "largest"
    """Which end of the spectrum, algebraically; the smallest of the Hessian is its most negative curvature."""
    num: int = 1
    """How many eigenvalues."""
    split: Literal["train", "test"] = "train"
    """Whose loss."""
    samples: int | None = None
    """Use so many samples only, the same ones every time (seed 0)."""
    layers: bool = False
    """Each layer alone instead of all weights together."""
    tolerance: float = 0.01
    """How far `bound` may be from `value`, relative to it."""
    delta: float = 0.05
    """Probability that `bound` may fail."""
    max_products: int = 200
    """Products with the matrix at most; beyond them the eigenvalue is returned as not certified."""
    seed: int = 0
    """Seed of the random start vectors."""
    json: bool = False
    """Print all as JSON."""

    def __call__(self) -> int:
        with request():
            check_path("run", self.run)
            if self.layers and self.num > 1:
                raise ValueError("`--layers` gives one eigenvalue per layer: leave `--num` at 1.")
            from surefoot.curvature import GGN, Hessian, subset
            from surefoot.diagnosis.facts import edge
            from surefoot.runs.restored_training import restored_training

            training, spec = restored_training(self.run)
            data = training.splits[self.split]
            inputs, labels = data.inputs, data.labels
            if self.samples is not None:
                inputs, labels = subset(inputs, labels, num_samples=self.samples)
        kinds = {"ggn": GGN, "hessian": Hessian}
        chosen = [name for name in kinds if self.matrix in (name, "both")]
        pairs: list[tuple[str, str, Eigenpair]] = []
        with working("measuring") as progress, request():
            for name in chosen:
                progress(f"the {MATRICES[name]}")
                pairs += [(name, *item) for item in self._measured(training, kinds[name], inputs, labels)]
        show = self._print_json if self.json else self._print_table
        show(pairs, step=training.step, num_samples=len(labels), limit=edge(spec))
        return 0

    def _print_json(
        self, pairs: "list[tuple[str, str, Eigenpair]]", *, step: int, num_samples: int, limit: float | None
    ) -> None:
        print_json(
            {
                "run": str(self.run),
                "step": step,
                "split": self.split,
                "num_samples": num_samples,
                "end": self.end,
                "delta": self.delta,
                "two_over_lr": limit,
                "eigenvalues": [{"matrix": name, "what": what, **_record(pair)} for name, what, pair in pairs],
            }
        )

    def _print_table(
        self, pairs: "list[tuple[str, str, Eigenpair]]", *, step: int, num_samples: int, limit: float | None
    ) -> None:
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (MATRICES[name], what, pair.value, pair.bound, pair.residual, pair.num_matvecs, _yes(pair.converged))
            for name, what, pair in pairs
        )
        against = "" if limit is None else f" 2 / lr is {limit:.4g}."
        note = (
            f"Between value (certain) and bound (probability {1 - self.delta:.0%}).{against} Certified: the "
            f"two are within {self.tolerance:.3g} of the value."
        )
        title = f"{self.end.capitalize()} eigenvalues at step {step}, {self.split} set, n = {num_samples:,}"
        columns = ("matrix", "eigenvalue", "value", "bound", "residual", "products", "certified")
        print_table(Table("sharpness", title, columns, rows, notes=(note,)))
        if not all(pair.converged for _, _, pair in pairs):
            say("Some are not certified: raise --max-products or --tolerance.")

    def _measured(
        self, training: "Training", matrix: type[Any], inputs: Any, labels: Any
    ) -> "list[tuple[str, Eigenpair]]":
        from surefoot.curvature import eigenpairs, random_source, sharpness_by_layer
        from surefoot.losses import loss_within

        loss = loss_within(training.objective)
        if loss is None:
            raise ValueError("Curvature needs an objective that is a loss of logits and labels.")
        which = f"{self.end} algebraic"
        if self.layers:
            by_layer = sharpness_by_layer(
                training.model,
                loss,
                (inputs, labels),
                matrix=matrix,
                which=which,
                tolerance=self.tolerance,
                delta=self.delta,
                max_matvecs=self.max_products,
                seed=self.seed,
            )
            return list(by_layer.items())
        curvature = matrix(training.model, loss, inputs, labels)
        pairs = eigenpairs(
            curvature.__matmul__,
            curvature.like,
            num=self.num,
            which=which,  # type: ignore[arg-type]
            tolerance=self.tolerance,
            delta=self.delta,
            max_matvecs=self.max_products,
            generator=random_source(self.seed),
        )
        return [(str(n), pair) for n, pair in enumerate(pairs, start=1)]


def _record(pair: "Eigenpair") -> dict[str, Any]:
    return {
        "value": pair.value,
        "bound": finite_or_none(pair.bound),
        "residual": pair.residual,
        "products": pair.num_matvecs,
        "certified": pair.converged,
    }


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"
