"""`surefoot certify`: what the margins prove."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from surefoot.cli._certificate_table import certificate_record, certificate_table, num_failed, sharpness_record
from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.cli.request import check_path, request

if TYPE_CHECKING:
    from torch import Tensor

    from surefoot.predictions import Predictions
    from surefoot.runs.spec import RunSpec
    from surefoot.theory import Certificate, Tail


@dataclass
class CertifyCommand:
    """Evaluate what margins prove about calibration error and curvature: bound, measured value, verdict.

    Of a run's folder (or a checkpoint in it) everything; of a file of predictions the side of the calibration error,
    which needs no model. A verdict of "assumption not met" claims nothing; "fails" would be a bug, and the exit code is
    then 1.

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
    split: Literal["train", "test"] | None = None
    """Of a run: whose samples; train if not given."""
    radius: float | None = None
    """Of a run: also what holds for inputs shifted so far: robust margins by an attack, proved where possible."""
    norm: Literal["l2", "linf"] | None = None
    """Of a run: the norm of `--radius`; l2 if not given."""
    rho: float | None = None
    """Of a run: also what SAM's climb of this radius is proved to do, on `--batch` samples."""
    gamma: float | None = None
    """Of a run: CSAM's exponent in Theorem 3, with `--rho`; the run's own if CSAM trained it, else 1."""
    batch: int | None = None
    """Of a run: how many samples the climb goes by, the first ones; 64 if not given."""
    bins: int = 15
    """Number of bins of the ECE."""
    worst: int = 10
    """How many of the samples with the smallest margins to name."""
    json: bool = False
    """Print all as JSON, one object per certificate."""

    def __call__(self) -> int:
        with request():
            self._check()
            with working("certifying") as progress:
                certificates, margins, about = (self._run if self._is_run else self._file)(progress)
        told = (str(self.path), certificates, margins, about)
        if self.json:
            print_json(certificate_record(*told, worst=self.worst))
        else:
            print_table(certificate_table(*told, worst=self.worst))
        failed = num_failed(certificates)
        if failed:
            say(f"Statements that are proved do not hold, {failed} of {len(certificates)}: please report this.")
        return 1 if failed else 0

    @property
    def _is_run(self) -> bool:
        return self.path.is_dir() or self.path.name == "checkpoint.safetensors"

    def _check(self) -> None:
        """Refuse what cannot be, before any work."""
        check_path("path", self.path)
        if self.worst < 0:
            raise ValueError(f"`--worst` must be at least 0, got {self.worst}.")
        if self.radius is not None and not 0 <= self.radius < math.inf:
            raise ValueError(f"`--radius` must be at least 0 and finite, got {self.radius}.")
        if self.rho is not None and not 0 < self.rho < math.inf:
            raise ValueError(f"`--rho` must be positive and finite, got {self.rho}.")
        if self.gamma is not None and not 0 <= self.gamma <= 2:
            raise ValueError(f"`--gamma` must lie in [0, 2], got {self.gamma}.")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"`--batch` must be at least 1, got {self.batch}.")
        of_file = [name for name in ("logits", "probs", "labels") if getattr(self, name) is not None]
        of_run = [
            name for name in ("split", "radius", "norm", "rho", "gamma", "batch") if getattr(self, name) is not None
        ]
        if self._is_run and of_file:
            raise ValueError(f"`--{of_file[0]}` names an array of a file, and a run has none.")
        if not self._is_run and of_run:
            raise ValueError(f"`--{of_run[0]}` needs a model: give a run, not a file.")
        for whose, names in (("radius", ("norm",)), ("rho", ("gamma", "batch"))):
            alone = [name for name in names if name in of_run and whose not in of_run]
            if alone:
                raise ValueError(f"`--{alone[0]}` needs `--{whose}`.")

    def _file(self, progress: Any) -> "tuple[list[Certificate], Tail, dict[str, Any]]":
        from surefoot.io.predictions_file import read_predictions
        from surefoot.theory import calibration_certificates, tail

        predictions = read_predictions(self.path, logits=self.logits, probabilities=self.probs, labels=self.labels)
        progress("the calibration error")
        certificates = calibration_certificates(predictions, num_bins=self.bins)
        about: dict[str, Any] = {"num_samples": predictions.num_samples, "num_classes": predictions.num_classes}
        about["deciles"] = _deciles(predictions, None)
        return certificates, tail(predictions.margin), about

    def _run(self, progress: Any) -> "tuple[list[Certificate], Tail, dict[str, Any]]":
        from surefoot.curvature import GGN, eigenpairs
        from surefoot.losses import CrossEntropy, loss_within
        from surefoot.runs.restored_training import restored_training
        from surefoot.theory import (
            calibration_certificates,
            certified_on_shift,
            curvature_certificates,
            exact_ece,
            exact_predictions,
            robust_calibration_certificates,
            robust_margins,
            sam_certificates,
            sample_curvature,
            smallest_shift,
            tail,
        )

        split, norm = self.split or "train", self.norm or "l2"
        training, spec = restored_training(self.path)
        gamma = self._gamma(spec)
        training.model.eval()  # as it will be used: dropout off, batch norm by its running statistics
        loss = loss_within(training.objective)
        if not isinstance(loss, CrossEntropy):
            raise ValueError("The certificates are about cross-entropy, and this run has another loss.")
        data = training.splits[split]
        predictions = exact_predictions(training.model, data.inputs, data.labels)
        progress("the calibration error")
        certificates = calibration_certificates(predictions, num_bins=self.bins)
        progress("the Jacobians")
        samples = sample_curvature(training.model, data.inputs)
        progress("the sharpness")
        matrix = GGN(training.model, loss, data.inputs, data.labels)
        (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=0.01, max_matvecs=200)
        robust, attacked = None, None
        if self.radius is not None:
            progress("the robust margins")
            robust = robust_margins(training.model, data.inputs, data.labels, radius=self.radius, norm=norm)
            attacked = robust.attacked
            certificates += robust_calibration_certificates(
                predictions,
                attacked,
                radius=self.radius,
                floor=robust.floor,
                lipschitz=robust.lipschitz,
                num_bins=self.bins,
            )
        certificates += curvature_certificates(predictions, samples, pair, attacked=attacked, num_bins=self.bins)
        if robust is not None and split == "train":
            progress("the test set's distance")
            test = training.splits["test"]
            shift = smallest_shift(data.inputs, data.labels, test.inputs, test.labels, norm=norm)
            test_ece = exact_ece(exact_predictions(training.model, test.inputs, test.labels), num_bins=self.bins)
            certificates.append(
                certified_on_shift(
                    training.model, data.inputs, data.labels, shift, radius=robust.radius, test_ece=test_ece
                )
            )
        if self.rho is not None:
            progress("SAM's climb")
            few = slice(0, self.batch or 64)
            climb = sam_certificates(
                training.model, data.inputs[few], data.labels[few], rho=self.rho, gamma=gamma, num_points=5
            )
            certificates += climb.certificates
        about: dict[str, Any] = {
            "step": training.step,
            "split": split,
            "num_samples": predictions.num_samples,
            "num_classes": predictions.num_classes,
            "c_j": round(float(samples.norms.max()), 6),
        }
        if self.rho is not None:
            about |= {"rho": self.rho, "gamma": gamma, "batch": len(data.labels[few])}
        about["sharpness"] = sharpness_record(pair)
        if robust is not None:
            about["robust"] = "proved" if robust.floor is not None else f"attack only: not a proof ({robust.why_not})"
            about["log_moments"] = robust.log_moments
            if split == "test":
                about["notes"] = [
                    "B.8 is left out: it goes from the training set to the test set, so it needs `--split train`."
                ]
        about["deciles"] = _deciles(predictions, attacked)
        return certificates, tail(predictions.margin), about

    def _gamma(self, spec: "RunSpec") -> float:
        if self.gamma is not None:
            return self.gamma
        own = float(spec.optimizer.options.get("gamma", 1.0)) if spec.optimizer.name == "csam" else 1.0
        if self.rho is not None and own > 2:
            raise ValueError(f"Theorem 3 needs gamma in [0, 2], and this run has {own:g}: give `--gamma`.")
        return own


def _deciles(predictions: "Predictions", attacked: "Tensor | None") -> list[dict[str, float]]:
    from surefoot.theory import ece_by_decile

    found = ece_by_decile(predictions, predictions.margin if attacked is None else attacked)
    return [{"mean_margin": margin, "gap": gap} for margin, gap in found]
