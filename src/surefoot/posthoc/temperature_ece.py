"""Temperature scaling by ECE."""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from surefoot.metrics import ece
from surefoot.posthoc.map import Fit, Map
from surefoot.predictions import Predictions

_TENTHS = range(1, 101)


@dataclass(frozen=True, eq=False)
class TemperatureECE(Map):
    """The map z -> z / T with the T in 0.1, 0.2, ..., 10.0 of least ECE (15 bins). Mukhoti et al. 2020, their code.

    What papers on focal losses mean by a temperature. The predicted class stays. Cost: one hundred ECEs.
    """

    temperature: float

    def _mapped(self, logits: Tensor) -> Tensor:
        return logits / self.temperature

    @classmethod
    def fit(cls, predictions: Predictions) -> Self:
        """The T of least ECE, the one nearest 1 on ties; converged unless it is an end of the grid, certificate 0."""
        exact, labels = predictions.exact, predictions.labels
        error = {tenths: float(ece(Predictions(exact / (tenths / 10), labels))) for tenths in _TENTHS}
        best = min(_TENTHS, key=lambda tenths: (error[tenths], abs(tenths - 10)))
        inside = best not in (_TENTHS[0], _TENTHS[-1])
        fitted = Fit(predictions.num_samples, predictions.num_classes, inside, 0.0, len(_TENTHS))
        return cls(best / 10, fitted=fitted)
