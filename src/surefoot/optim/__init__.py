"""Optimizers, each stepped as `step(closure) -> loss`."""

import torch
from torch.optim import SGD, AdamW

from surefoot.optim.asam import ASAM
from surefoot.optim.bsam import BSAM
from surefoot.optim.bulk_sgd import BulkSGD, DominantSGD
from surefoot.optim.csam import CSAM
from surefoot.optim.gd import GD
from surefoot.optim.muon import Muon, orthogonalized
from surefoot.optim.sam import SAM
from surefoot.optim.ssam import SSAM
from surefoot.optim.vasso import VASSO

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adamw": AdamW,
    "asam": ASAM,
    "bsam": BSAM,
    "bulk_sgd": BulkSGD,
    "csam": CSAM,
    "dominant_sgd": DominantSGD,
    "gd": GD,
    "muon": Muon,
    "sam": SAM,
    "sgd": SGD,
    "ssam": SSAM,
    "vasso": VASSO,
}

__all__ = [
    "ASAM",
    "BSAM",
    "CSAM",
    "GD",
    "OPTIMIZERS",
    "SAM",
    "SGD",
    "SSAM",
    "VASSO",
    "AdamW",
    "BulkSGD",
    "DominantSGD",
    "Muon",
    "orthogonalized",
]
