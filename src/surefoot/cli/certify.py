"""`surefoot certify`: what the margins prove."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from surefoot.cli.request import check_path, request
from surefoot.cli.terminal import print_json, print_table, say, working
from surefoot.table import Table

if TYPE_CHECKING:
    from torch import Tensor

    from surefoot.predictions import Predictions
    from surefoot.theory import Certificate, Tail


@dataclass
class Certify:
    """Evaluate what margins prove about calibration error and curvature: bound, measured value, verdict.

    Of a run's folder (or a checkpoint in it) everything; of a file of predictions the side of the calibration error,
    which needs no model. A verdict of "assumption not met" claims nothing; "fails" would be a bug.

    Example: surefoot certify test.npz
    """

    path: tyro.conf.Positional[Path]
    """Folder of a run, a checkpoint in it, or a file of predictions as for `evaluate`."""
    logits: str | None = None
    """Of a file: name of the logits, [N, K]."""
    probs: str | None = None
    """Of a file: name of the probabilities, [N, K], if there are no logits."""
    labels: str | None = None
    """Of a file: name of the true classes, [N]."""
    split: Literal["train", "test"] = "train"
    """Of a run: whose samples."""
    radius: float | None = None
    """Of a run: also what holds for inputs shifted so far: robust margins by an attack, proved where possible."""
    norm: Literal["l2", "linf"] = "l2"
    """Of a run: the norm of `--radius`."""
    rho: float | None = None
    """Of a run: also what SAM's climb of this radius is proved to do, on `--batch` samples."""
    batch: int = 64
    """Of a run: how many samples the climb goes by, the first ones."""
    bins: int = 15
    """Number of bins of the ECE."""
    worst: int = 10
    """How many of the samples with the smallest margins to name."""
    json: bool = False
    """Print all as JSON, one object per certificate."""

    def __call__(self) -> int:
        with request():
            check_path("path", self.path)
            if self.worst < 0:
                raise ValueError(f"`--worst` must be at least 0, got {self.worst}.")
            is_run = self.path.is_dir() or self.path.name == "checkpoint.safetensors"
            of = self._run if is_run else self._file
            with working("certifying") as progress:
                certificates, margins, about = of(progress)
        record = _tail_record(margins, self.worst)
        if self.json:
            print_json({"path": str(self.path), **about, **record, "certificates": [_record(c) for c in certificates]})
            return 0
        regime = "interpolating: every sample right" if margins.interpolating else "overlap: not every sample is right"
        shares = ", ".join(f"{share:.0%}: {part:.0%}" for share, part in margins.shares.items())
        worst = ", ".join(map(str, record["worst"]))
        print_table(
            Table(
                "certificates",
                f"{self.path}: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in about.items() if _is_short(v)),
                ("statement", "measured", "bound", "slack", "verdict"),
                tuple((c.name, _shown(c.measured), _shown(c.bound), _shown(c.slack), c.verdict) for c in certificates),
                notes=(
                    f"Regime: {regime}; smallest margin {margins.smallest:.3g}, log Q {margins.log_moment:.4g}.",
                    f"Share of Q that comes from the worst samples: {shares}. The worst, by index: {worst or '-'}.",
                    *_robust_notes(about),
                    "Slack: bound over measured, 1 is tight. " + _unmet(certificates),
                ),
            )
        )
        if any(c.verdict == "fails" for c in certificates):
            say("A statement that is proved does not hold: please report this.")
        return 0

    def _file(self, progress: Any) -> "tuple[list[Certificate], Tail, dict[str, Any]]":
        from surefoot.data.predictions_file import read_predictions
        from surefoot.theory import calibration_certificates, tail

        if self.radius is not None or self.rho is not None:
            raise ValueError("`--radius` and `--rho` need a model: give a run, not a file.")
        predictions = read_predictions(self.path, logits=self.logits, probabilities=self.probs, labels=self.labels)
        progress("the calibration error")
        certificates = calibration_certificates(predictions, num_bins=self.bins)
        about: dict[str, Any] = {"num_samples": predictions.num_samples, "num_classes": predictions.num_classes}
        about["deciles"] = _deciles(predictions, None)
        return certificates, tail(predictions.margin), about

    def _run(self, progress: Any) -> "tuple[list[Certificate], Tail, dict[str, Any]]":
        import torch

        from surefoot.curvature import GGN, eigenpairs
        from surefoot.losses import CrossEntropy, Lifted
        from surefoot.runs.finished import training_at
        from surefoot.theory import (
            calibration_certificates,
            certified_on_shift,
            curvature_certificates,
            exact_ece,
            robust_calibration_certificates,
            robust_margins,
            sam_certificates,
            sample_curvature,
            smallest_shift,
            tail,
        )
        from surefoot.training.snapshot import Snapshot

        if self.batch < 1:
            raise ValueError(f"`--batch` must be at least 1, got {self.batch}.")
        if any((self.logits, self.probs, self.labels)):
            raise ValueError("`--logits`, `--probs` and `--labels` name arrays of a file; a run has none.")
        training, _spec = training_at(self.path)
        training.model.eval()  # as it will be used: dropout off, batch norm by its running statistics
        objective = training.objective
        if not isinstance(objective, Lifted) or not isinstance(objective.loss, CrossEntropy):
            raise ValueError("The certificates are about cross-entropy, and this run has another loss.")
        data = training.splits[self.split]
        predictions = Snapshot(training.step, training.model, objective, training.splits).predictions(self.split)
        progress("the calibration error")
        certificates = calibration_certificates(predictions, num_bins=self.bins)
        progress("the Jacobians")
        samples = sample_curvature(training.model, data.inputs)
        progress("the sharpness")
        matrix = GGN(training.model, objective.loss, data.inputs, data.labels)
        (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=0.01, max_matvecs=200)
        robust, attacked = None, None
        if self.radius is not None:
            progress("the robust margins")
            robust = robust_margins(training.model, data.inputs, data.labels, radius=self.radius, norm=self.norm)
            attacked = torch.minimum(robust.attacked, predictions.margin)  # no shift is a candidate, rounding aside
            certificates += robust_calibration_certificates(
                predictions,
                attacked,
                radius=self.radius,
                floor=robust.floor,
                lipschitz=robust.lipschitz,
                num_bins=self.bins,
            )
        certificates += curvature_certificates(predictions, samples, pair, attacked=attacked, num_bins=self.bins)
        if robust is not None and self.split == "train":
            progress("the test set's distance")
            test = training.splits["test"]
            shift = smallest_shift(data.inputs, data.labels, test.inputs, test.labels, norm=self.norm)
            said = Snapshot(training.step, training.model, objective, training.splits).predictions("test")
            test_ece = exact_ece(said, num_bins=self.bins)
            certificates.append(
                certified_on_shift(
                    training.model, data.inputs, data.labels, shift, radius=robust.radius, test_ece=test_ece
                )
            )
        if self.rho is not None:
            progress("SAM's climb")
            few = slice(0, self.batch)
            climb = sam_certificates(training.model, data.inputs[few], data.labels[few], rho=self.rho, num_points=5)
            certificates += climb.certificates
        about: dict[str, Any] = {
            "step": training.step,
            "split": self.split,
            "num_samples": predictions.num_samples,
            "num_classes": predictions.num_classes,
            "c_j": round(float(samples.norms.max()), 6),
        }
        if robust is not None:
            about["robust"] = "proved" if robust.floor is not None else f"attack only: not a proof ({robust.why_not})"
            about["log_moments"] = robust.log_moments
        about["deciles"] = _deciles(predictions, attacked)
        return certificates, tail(predictions.margin), about


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _deciles(predictions: "Predictions", attacked: "Tensor | None") -> list[dict[str, float]]:
    from surefoot.theory import ece_by_decile

    found = ece_by_decile(predictions, predictions.margin if attacked is None else attacked)
    return [{"mean_margin": margin, "gap": gap} for margin, gap in found]


def _robust_notes(about: dict[str, Any]) -> Iterator[str]:
    moments = about.get("log_moments")
    if moments is not None:
        yield "Robust margins: " + ", ".join(f"log {name} {value:.4g}" for name, value in moments.items()) + "."
    gaps = ", ".join(f"{part['gap']:.3f}" for part in about["deciles"])
    yield f"|confidence - accuracy| by tenth of the {'' if moments is None else 'robust '}margin, lowest first: {gaps}."


def _unmet(certificates: "list[Certificate]") -> str:
    reasons = dict.fromkeys(c.assumptions[0] for c in certificates if c.verdict == "assumption not met")
    return f"Not met: {'; '.join(reasons)}." if reasons else ""


def _tail_record(margins: "Tail", number: int) -> dict[str, Any]:
    return {
        "regime": "interpolating" if margins.interpolating else "overlap",
        "smallest_margin": margins.smallest,
        "log_moment": margins.log_moment,
        "share_of_moment": {f"worst {share:.0%}": part for share, part in margins.shares.items()},
        "worst": margins.worst[:number].tolist(),
    }


def _record(item: "Certificate") -> dict[str, Any]:
    numbers = (("bound", item.bound), ("measured", item.measured), ("slack", item.slack))
    finite = {key: value if math.isfinite(value) else None for key, value in numbers}
    return {
        "name": item.name,
        "bound": finite["bound"],
        "measured": finite["measured"],
        "slack": finite["slack"],
        "verdict": item.verdict,
        "holds": item.holds,
        "assumptions": list(item.assumptions),
    }


def _shown(value: float) -> str:
    return f"{value:.4g}"
