"""What margins prove about a model's calibration error and sharpness, in one call."""

from dataclasses import dataclass

from torch import Tensor, nn

from surefoot.curvature import Eigenpair, sharpness
from surefoot.eval_mode import evaluating
from surefoot.losses import CrossEntropy
from surefoot.predictions import Predictions
from surefoot.table import Table
from surefoot.theory._calibration_certificates import calibration_certificates
from surefoot.theory._certificate import Certificate
from surefoot.theory._curvature_certificates import curvature_certificates
from surefoot.theory._exact_predictions import exact_predictions
from surefoot.theory._margin_tail import Tail, tail
from surefoot.theory._sample_curvature import sample_curvature


@dataclass(frozen=True, repr=False)
class Certification:
    """Every bound on calibration error and sharpness, evaluated on a model and its data. Prints as a table."""

    certificates: tuple[Certificate, ...]
    num_samples: int
    num_classes: int
    tail: Tail  # of the margins
    sharpness: Eigenpair  # of the Gauss-Newton matrix
    largest_jacobian_norm: float  # C_J

    @property
    def failed(self) -> tuple[Certificate, ...]:
        """Statements that are proved and do not hold: a bug, please report it."""
        return tuple(each for each in self.certificates if each.verdict == "fails")

    def __str__(self) -> str:
        return self.table().text()

    __repr__ = __str__

    def table(self) -> Table:
        """The certificates as a table."""
        rows = tuple((each.name, each.measured, each.bound, each.slack, each.verdict) for each in self.certificates)
        regime = "interpolating" if self.tail.interpolating else "not every sample is right with a positive margin"
        return Table(
            "certificates",
            f"{self.num_samples:,} samples, {self.num_classes} classes",
            ("statement", "measured", "bound", "slack", "verdict"),
            rows,
            (
                f"Smallest margin {self.tail.smallest:.3g} ({regime}), log Q {self.tail.log_moment:.4g}, "
                f"C_J {self.largest_jacobian_norm:.4g}.",
                f"Sharpness: at least {self.sharpness.value:.4g} (certain), at most {self.sharpness.bound:.4g} "
                f"(probability {1 - self.sharpness.delta:.0%}).",
                "Slack: bound over measured, 1 is tight.",
            ),
        )


def certify(model: nn.Module, inputs: Tensor, labels: Tensor, *, num_bins: int = 15) -> Certification:
    """Evaluate what margins prove about a model's calibration error and Gauss-Newton sharpness under cross-entropy.

    The model is evaluated in eval mode and restored. `surefoot certify` adds robust margins and SAM's perturbation.

    Args:
        model: A network from inputs to logits [N, K].
        inputs: Samples [N, ...].
        labels: True classes [N], from 0.
        num_bins: Number of bins of the ECE.

    Returns:
        The certificates, which print as a table: measured value, bound and verdict.

    >>> import torch
    >>> model = nn.Linear(2, 3)
    >>> certify(model, torch.eye(2), torch.tensor([0, 1])).failed
    ()
    """
    with evaluating(model):
        predictions: Predictions = exact_predictions(model, inputs, labels)
        samples = sample_curvature(model, inputs)
        pair = sharpness(model, CrossEntropy(), (inputs, labels), tolerance=0.01, max_matvecs=200)
    certificates = [
        *calibration_certificates(predictions, num_bins=num_bins),
        *curvature_certificates(predictions, samples, pair, num_bins=num_bins),
    ]
    return Certification(
        tuple(certificates),
        predictions.num_samples,
        predictions.num_classes,
        tail(predictions.margin),
        pair,
        float(samples.norms.max()),
    )
