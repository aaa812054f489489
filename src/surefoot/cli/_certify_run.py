"""Everything that margins prove about a run's network, for `surefoot certify`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from surefoot.cli._certificate_table import sharpness_record
from surefoot.curvature import GGN, Eigenpair, eigenpairs
from surefoot.data import Split
from surefoot.losses import CrossEntropy, loss_within
from surefoot.predictions import Predictions
from surefoot.theory import (
    Certificate,
    RobustMargins,
    SampleCurvature,
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
)
from surefoot.training.loop import Training

_SAM_SAMPLES = 64  # that SAM's perturbation is computed from, unless the user says otherwise
_NO_SHIFT = "B.8 is left out: it goes from the training set to the test set, so it needs `--split train`."


@dataclass
class RunCertificates:
    """Certificates of one network on one split, collected part by part, and facts about them."""

    training: Training
    split: str
    num_bins: int
    progress: Callable[[str], None]
    certificates: list[Certificate] = field(default_factory=list, init=False)
    about: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.training.model.eval()  # as it will be used: dropout off, batch norm by its running statistics
        loss = loss_within(self.training.objective)
        if not isinstance(loss, CrossEntropy):
            raise ValueError("The certificates are about cross-entropy, and this run has another loss.")
        self.loss = loss
        self.predictions: Predictions = exact_predictions(self.model, self.data.inputs, self.data.labels)

    @property
    def model(self) -> nn.Module:
        """The run's network."""
        return self.training.model

    @property
    def data(self) -> Split:
        """The samples that the certificates are about."""
        return self.training.splits[self.split]

    def add_calibration(self) -> None:
        """Add the bounds of the calibration error by margins."""
        self.progress("the calibration error")
        self.certificates += calibration_certificates(self.predictions, num_bins=self.num_bins)

    def sample_curvature(self) -> SampleCurvature:
        """The Jacobian norms of the samples."""
        self.progress("the Jacobians")
        return sample_curvature(self.model, self.data.inputs)

    def sharpness(self) -> Eigenpair:
        """The largest eigenvalue of the Gauss-Newton matrix."""
        self.progress("the sharpness")
        matrix = GGN(self.model, self.loss, self.data.inputs, self.data.labels)
        (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=0.01, max_matvecs=200)
        return pair

    def add_robust(self, radius: float, norm: Literal["l2", "linf"]) -> RobustMargins:
        """Add the bounds of the calibration error by margins that shifts of the input within `radius` leave."""
        self.progress("the robust margins")
        robust = robust_margins(self.model, self.data.inputs, self.data.labels, radius=radius, norm=norm)
        self.certificates += robust_calibration_certificates(
            self.predictions,
            robust.attacked,
            radius=radius,
            floor=robust.floor,
            lipschitz=robust.lipschitz,
            num_bins=self.num_bins,
        )
        return robust

    def add_curvature(self, samples: SampleCurvature, pair: Eigenpair, robust: RobustMargins | None) -> None:
        """Add the bounds that join margins and curvature."""
        attacked = None if robust is None else robust.attacked
        self.certificates += curvature_certificates(
            self.predictions, samples, pair, attacked=attacked, num_bins=self.num_bins
        )

    def add_shift(self, robust: RobustMargins, norm: Literal["l2", "linf"]) -> None:
        """Add the bound of the test set's calibration error by its distance from the training set."""
        self.progress("the test set's distance")
        test = self.training.splits["test"]
        shift = smallest_shift(self.data.inputs, self.data.labels, test.inputs, test.labels, norm=norm)
        test_ece = exact_ece(exact_predictions(self.model, test.inputs, test.labels), num_bins=self.num_bins)
        self.certificates.append(
            certified_on_shift(
                self.model, self.data.inputs, self.data.labels, shift, radius=robust.radius, test_ece=test_ece
            )
        )

    def add_sam(self, rho: float, gamma: float, num_samples: int | None) -> int:
        """Add the statements about SAM's perturbation; returns from how many samples it was computed."""
        self.progress("SAM's perturbation")
        inputs, labels = (part[: num_samples or _SAM_SAMPLES] for part in (self.data.inputs, self.data.labels))
        self.certificates += sam_certificates(
            self.model, inputs, labels, rho=rho, gamma=gamma, num_points=5
        ).certificates
        return len(labels)


def certify_run(
    training: Training,
    *,
    split: Literal["train", "test"],
    num_bins: int,
    radius: float | None,
    norm: Literal["l2", "linf"],
    rho: float | None,
    gamma: float,
    batch: int | None,
    progress: Callable[[str], None],
) -> tuple[RunCertificates, RobustMargins | None]:
    """All certificates of a run's network, and its robust margins where a `radius` is given."""
    run = RunCertificates(training, split, num_bins, progress)
    run.add_calibration()
    samples, pair = run.sample_curvature(), run.sharpness()
    robust = None if radius is None else run.add_robust(radius, norm)
    run.add_curvature(samples, pair, robust)
    if robust is not None and split == "train":
        run.add_shift(robust, norm)
    run.about = {
        "step": training.step,
        "split": split,
        "num_samples": run.predictions.num_samples,
        "num_classes": run.predictions.num_classes,
        "c_j": round(float(samples.norms.max()), 6),
    }
    if rho is not None:
        run.about |= {"rho": rho, "gamma": gamma, "batch": run.add_sam(rho, gamma, batch)}
    run.about["sharpness"] = sharpness_record(pair)
    if robust is not None:
        run.about["robust"] = "proved" if robust.floor is not None else f"attack only: not a proof ({robust.why_not})"
        run.about["log_moments"] = robust.log_moments
        if split == "test":
            run.about["notes"] = [_NO_SHIFT]
    return run, robust
