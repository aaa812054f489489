"""`surefoot certify`: what the margins prove."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from surefoot.cli._certificate_table import certificate_record, certificate_table, num_failed
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
        shown = (str(self.path), certificates, margins, about)
        if self.json:
            print_json(certificate_record(*shown, worst=self.worst))
        else:
            print_table(certificate_table(*shown, worst=self.worst))
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
        from surefoot.cli._certify_run import certify_run
        from surefoot.runs.restored_training import restored_training
        from surefoot.theory import tail

        training, spec = restored_training(self.path)
        run, robust = certify_run(
            training,
            split=self.split or "train",
            num_bins=self.bins,
            radius=self.radius,
            norm=self.norm or "l2",
            rho=self.rho,
            gamma=self._gamma(spec),
            batch=self.batch,
            progress=progress,
        )
        about = {**run.about, "deciles": _deciles(run.predictions, None if robust is None else robust.attacked)}
        return run.certificates, tail(run.predictions.margin), about

    def _gamma(self, spec: "RunSpec") -> float:
        if self.gamma is not None:
            return self.gamma
        own = float(spec.optimizer.options.get("gamma", 1.0)) if spec.optimizer.name == "csam" else 1.0
        if self.rho is not None and own > 2:
            raise ValueError(f"Theorem 3 needs gamma in [0, 2], and this run has {own:g}: give `--gamma`.")
        return own


def _deciles(predictions: "Predictions", attacked: "Tensor | None") -> list[dict[str, float]]:
    from surefoot.theory import ece_by_decile

    deciles = ece_by_decile(predictions, predictions.margin if attacked is None else attacked)
    return [{"mean_margin": margin, "gap": gap} for margin, gap in deciles]
