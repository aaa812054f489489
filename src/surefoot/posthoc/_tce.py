"""Expected calibration error after temperature scaling."""

from typing import Literal

from torch import Tensor

from surefoot.metrics import ece
from surefoot.posthoc.temperature import Temperature
from surefoot.posthoc.temperature_ece import TemperatureECE
from surefoot.predictions import Predictions
from surefoot.registry import look_up

_BY: dict[str, type[Temperature] | type[TemperatureECE]] = {"nll": Temperature, "ece": TemperatureECE}


def tce(validation: Predictions, test: Predictions, *, by: Literal["nll", "ece"] = "nll") -> Tensor:
    """ECE of the test predictions divided by the T that is best on the validation ones, by NLL or by ECE.

    Range [0, 1], 0 is calibrated. By NLL: Guo et al. 2017; by ECE on a grid: Mukhoti et al. 2020. The two differ, so
    say which.
    """
    fitted = look_up("choice of temperature", by, _BY).fit(validation)
    return ece(Predictions(fitted(test.exact), test.labels))
