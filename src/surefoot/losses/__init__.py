"""Losses of logits and labels, one value per sample, and objectives of model and batch."""

from collections.abc import Callable

from surefoot.losses.acls import ACLS
from surefoot.losses.adafocal import AdaFocal
from surefoot.losses.adversarial import Adversarial
from surefoot.losses.ar_adals import ARAdaLS
from surefoot.losses.balcal import BalCAL
from surefoot.losses.brier import Brier
from surefoot.losses.cpc import CPC
from surefoot.losses.crl import CRL
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.losses.dece import DECE
from surefoot.losses.dual_focal import DualFocal
from surefoot.losses.entropy_penalty import EntropyPenalty
from surefoot.losses.flsd53 import FLSD53
from surefoot.losses.focal import Focal
from surefoot.losses.input_gradient import InputGradient
from surefoot.losses.label_smoothing import LabelSmoothing
from surefoot.losses.macs import MaCS
from surefoot.losses.margin_aware import MarginAware
from surefoot.losses.mbls import MbLS
from surefoot.losses.mdca import MDCA
from surefoot.losses.mit_l import MITL
from surefoot.losses.mixup import Mixup
from surefoot.losses.mmce import MMCE
from surefoot.losses.mse import MSE
from surefoot.losses.objective import (
    Batch,
    Lifted,
    Loss,
    Objective,
    Remembering,
    couples_samples,
    loss_within,
    memory_of,
)
from surefoot.losses.soft_binned_ece import SoftBinnedECE
from surefoot.losses.two_heads import TwoHeads

LOSSES: dict[str, Callable[..., Loss]] = {
    "acls": ACLS,
    "adafocal": AdaFocal,
    "brier": Brier,
    "cpc": CPC,
    "cross_entropy": CrossEntropy,
    "dece": DECE,
    "dual_focal": DualFocal,
    "entropy_penalty": EntropyPenalty,
    "flsd53": FLSD53,
    "focal": Focal,
    "label_smoothing": LabelSmoothing,
    "mbls": MbLS,
    "mdca": MDCA,
    "mmce": MMCE,
    "mse": MSE,
    "soft_binned_ece": SoftBinnedECE,
}

OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "adversarial": Adversarial,
    "ar_adals": ARAdaLS,
    "balcal": BalCAL,
    "crl": CRL,
    "input_gradient": InputGradient,
    "macs": MaCS,
    "margin_aware": MarginAware,
    "mit_l": MITL,
    "mixup": Mixup,
}

__all__ = [
    "ACLS",
    "CPC",
    "CRL",
    "DECE",
    "FLSD53",
    "LOSSES",
    "MDCA",
    "MITL",
    "MMCE",
    "MSE",
    "OBJECTIVES",
    "ARAdaLS",
    "AdaFocal",
    "Adversarial",
    "BalCAL",
    "Batch",
    "Brier",
    "CrossEntropy",
    "DualFocal",
    "EntropyPenalty",
    "Focal",
    "InputGradient",
    "LabelSmoothing",
    "Lifted",
    "Loss",
    "MaCS",
    "MarginAware",
    "MbLS",
    "Mixup",
    "Objective",
    "Remembering",
    "SoftBinnedECE",
    "TwoHeads",
    "couples_samples",
    "loss_within",
    "memory_of",
]
