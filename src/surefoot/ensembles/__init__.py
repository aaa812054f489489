"""Ensembles: classifiers whose probabilities are a mean over members or draws."""

from surefoot.ensembles.batch_ensemble import BatchEnsemble
from surefoot.ensembles.bsam_sampling import BSAMSampling
from surefoot.ensembles.deep_ensemble import DeepEnsemble
from surefoot.ensembles.ensemble import Ensemble
from surefoot.ensembles.mc_dropout import MCDropout, with_dropout
from surefoot.ensembles.mimo import MIMO
from surefoot.ensembles.rank1 import Rank1
from surefoot.ensembles.swag import SWAG
from surefoot.ensembles.variational import Variational

ENSEMBLES: dict[str, type[Ensemble]] = {
    "batch_ensemble": BatchEnsemble,
    "bsam": BSAMSampling,
    "deep_ensemble": DeepEnsemble,
    "mc_dropout": MCDropout,
    "mimo": MIMO,
    "rank1": Rank1,
    "swag": SWAG,
    "variational": Variational,
}

__all__ = [
    "ENSEMBLES",
    "MIMO",
    "SWAG",
    "BSAMSampling",
    "BatchEnsemble",
    "DeepEnsemble",
    "Ensemble",
    "MCDropout",
    "Rank1",
    "Variational",
    "with_dropout",
]
