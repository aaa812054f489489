"""Maps of logits fitted after training: `fit(predictions)` returns a map from logits to logits."""

from surefoot.posthoc._calibrate import Calibration, calibrate, kinds_of
from surefoot.posthoc._cross_fitted import cross_fitted
from surefoot.posthoc._tce import tce
from surefoot.posthoc.bbq import BBQ
from surefoot.posthoc.beta import Beta
from surefoot.posthoc.choice import Choice, choose
from surefoot.posthoc.dirichlet import Dirichlet
from surefoot.posthoc.ensemble_temperature import EnsembleTemperature
from surefoot.posthoc.histogram import Histogram
from surefoot.posthoc.isotonic import Isotonic
from surefoot.posthoc.map import Fit, Map, load
from surefoot.posthoc.matrix import Matrix
from surefoot.posthoc.platt import Platt
from surefoot.posthoc.sms import SMS
from surefoot.posthoc.svs import SVS
from surefoot.posthoc.temperature import Temperature
from surefoot.posthoc.temperature_ece import TemperatureECE
from surefoot.posthoc.vector import Vector

POSTHOC: dict[str, type[Map]] = {
    "bbq": BBQ,
    "beta": Beta,
    "dirichlet": Dirichlet,
    "ensemble_temperature": EnsembleTemperature,
    "histogram": Histogram,
    "isotonic": Isotonic,
    "matrix": Matrix,
    "platt": Platt,
    "sms": SMS,
    "svs": SVS,
    "temperature": Temperature,
    "temperature_ece": TemperatureECE,
    "vector": Vector,
}

__all__ = [
    "BBQ",
    "POSTHOC",
    "SMS",
    "SVS",
    "Beta",
    "Calibration",
    "Choice",
    "Dirichlet",
    "EnsembleTemperature",
    "Fit",
    "Histogram",
    "Isotonic",
    "Map",
    "Matrix",
    "Platt",
    "Temperature",
    "TemperatureECE",
    "Vector",
    "calibrate",
    "choose",
    "cross_fitted",
    "kinds_of",
    "load",
    "tce",
]
