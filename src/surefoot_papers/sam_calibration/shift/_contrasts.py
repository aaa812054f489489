"""What the paper says of corrupted and out-of-distribution images, and of ensembles, as contrasts of two methods."""

from surefoot.studies.claim import slug
from surefoot.studies.comparison import Contrast
from surefoot_papers.sam_calibration.shared_claims import POINT

_CORRUPTIONS = {"motion_blur": "motion blur", "defocus_blur": "defocus blur", "impulse_noise": "impulse noise"}
_LOSSES = {"mbls": "MbLS", "cpc": "CPC", "acls": "ACLS", "mdca": "MDCA"}
_OPTIMIZERS = {"sgd": "SGD", "sam": "SAM", "csam": "CSAM"}
_ENSEMBLES = {"mc_dropout": "MC-Dropout", "deep_ensemble": "an ensemble"}

_CORRUPTED = (
    *(
        Contrast(
            f"SAM is better calibrated than SGD under {name}",
            f"{corruption}/ece",
            "sam",
            "sgd",
            id=f"ece-corrupted/optimizers/sam/sgd/{slug(corruption)}",
        )
        for corruption, name in _CORRUPTIONS.items()
    ),
    Contrast(
        "CSAM is better calibrated than SAM under corruption",
        "shifted/ece",
        "csam",
        "sam",
        id="ece-corrupted/optimizers/csam/sam",
    ),
    *(
        Contrast(
            f"{_OPTIMIZERS[one]} is more accurate than {_OPTIMIZERS[other]} under corruption",
            "shifted/accuracy",
            one,
            other,
            lower=False,
            id=f"accuracy-corrupted/optimizers/{one}/{other}",
        )
        for one, other in (("sam", "sgd"), ("csam", "sam"))
    ),
    *(
        contrast
        for optimizer in ("csam", "sam")
        for loss, name in _LOSSES.items()
        for contrast in (
            Contrast(
                f"{_OPTIMIZERS[optimizer]} is better calibrated than {name} under corruption",
                "shifted/ece",
                optimizer,
                f"sgd + {loss}",
                id=f"ece-corrupted/losses/{optimizer}/{loss}",
            ),
            Contrast(
                f"{_OPTIMIZERS[optimizer]} is more accurate than {name} under corruption",
                "shifted/accuracy",
                optimizer,
                f"sgd + {loss}",
                lower=False,
                id=f"accuracy-corrupted/losses/{optimizer}/{loss}",
            ),
        )
    ),
    Contrast(
        "SAM tells corrupted images from clean ones better than SGD",
        "shifted/auroc_ood",
        "sam",
        "sgd",
        lower=False,
        id="auroc-corrupted/sam/sgd",
    ),
)
_ENSEMBLES_CLEAN = (
    *(
        Contrast(
            f"{name} lowers the ECE of {_OPTIMIZERS[optimizer]}",
            "test/ece",
            f"{optimizer} + {ensemble}",
            optimizer,
            id=f"ece-ensemble/{slug(ensemble)}/{optimizer}",
        )
        for ensemble, name in _ENSEMBLES.items()
        for optimizer in _OPTIMIZERS
    ),
    *(
        Contrast(
            f"{_OPTIMIZERS[one]} is better calibrated than {_OPTIMIZERS[other]} with {name}",
            "test/ece",
            f"{one} + {ensemble}",
            f"{other} + {ensemble}",
            id=f"ece-both-ensembles/{one}/{other}/{slug(ensemble)}",
        )
        for ensemble, name in _ENSEMBLES.items()
        for one, other in (("sam", "sgd"), ("csam", "sam"))
    ),
)
_OUT_OF_DISTRIBUTION = (
    Contrast(
        "SAM tells foreign images from its own better than SGD",
        "foreign/auroc_ood",
        "sam",
        "sgd",
        lower=False,
        id="auroc-ood/optimizers/sam/sgd",
    ),
    *(
        Contrast(
            f"{_OPTIMIZERS[optimizer]} tells foreign images {change}",
            "foreign/auroc_ood",
            f"{optimizer} + {ensemble}",
            optimizer,
            lower=lower,
            id=f"auroc-ood/{slug(ensemble)}/{optimizer}",
        )
        for ensemble, change, lower in (
            ("deep_ensemble", "better with an ensemble", False),
            ("mc_dropout", "worse with MC-Dropout", True),
        )
        for optimizer in _OPTIMIZERS
    ),
    Contrast(
        "an ensemble of SGD is almost as accurate as one of SAM, at most a point below",
        "test/accuracy",
        "sgd + deep_ensemble",
        "sam + deep_ensemble",
        lower=False,
        limit=POINT,
    ),
    *(
        Contrast(
            f"{name} on foreign images is larger for SAM than for SGD",
            "foreign/auroc_ood",
            f"sam + {ensemble}",
            "sam",
            lower=lower,
            beyond=(f"sgd + {ensemble}", "sgd"),
            id=f"auroc-ood-change/{slug(ensemble)}/sam/sgd",
        )
        for ensemble, name, lower in (
            ("deep_ensemble", "the gain from an ensemble", False),
            ("mc_dropout", "the harm of MC-Dropout", True),
        )
    ),
)
_CLEAN = tuple(
    Contrast(f"{_OPTIMIZERS[optimizer]} is better calibrated than SGD on clean images", "test/ece", optimizer, "sgd")
    for optimizer in ("sam", "csam")
)

CONTRASTS = (*_CORRUPTED, *_ENSEMBLES_CLEAN, *_OUT_OF_DISTRIBUTION, *_CLEAN)
