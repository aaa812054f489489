"""Which training methods are better calibrated than SGD, SAM and CSAM? Tables 3, S5 and S13 of the paper."""

from surefoot.studies.comparison import Comparison, Contrast
from surefoot_papers.sam_calibration.shared_claims import BOTH, CSAM, POINT, SAM, TITLE, accuracy_cost

_OTHERS = {  # of Tables 3 and S5
    "focal": "focal loss",
    "dual_focal": "dual focal loss",
    "adafocal": "AdaFocal",
    "mixup": "mixup",
    "mit_l": "MIT-L",
    "mmce": "MMCE",
    "batch_ensemble": "BatchEnsemble",
    "rank1": "Rank1-BNN",
    "variational": "variational inference",
    "mimo": "MIMO",
    "acls": "ACLS",
    "balcal": "BalCAL",
}
_SMOOTHED = {"label_smoothing": "label smoothing", "mbls": "MbLS", "acls": "ACLS"}
_MORE = {"mdca": "MDCA", "cpc": "CPC", "crl": "CRL"}  # of Table S13
_SCORED = {  # in what SAM and CSAM are better than SGD as well
    "test/classwise_ece": ("a lower classwise ECE", True),
    "test/ada_ece": ("a lower adaptive ECE", True),
    "test/ece_temperature": ("a lower ECE after temperature scaling", True),
    "test/auroc_correct": ("a higher AUROC of right against wrong", False),
}

METHODS = Comparison(
    title=TITLE,
    contrasts=(
        SAM,
        CSAM,
        BOTH,
        *(
            Contrast(f"{name} is more accurate than SGD", "test/accuracy", better=optimizer, than="sgd", lower=False)
            for optimizer, name in (("sam", "SAM"), ("csam", "CSAM"))
        ),
        Contrast(
            "CSAM is about as accurate as SAM, at most a point below",
            "test/accuracy",
            better="csam",
            than="sam",
            lower=False,
            limit=POINT,
        ),
        *(
            Contrast(f"CSAM is better calibrated than {name}", "test/ece", better="csam", than=f"sgd + {method}")
            for method, name in (_OTHERS | _SMOOTHED | _MORE).items()
        ),
        *(
            Contrast(
                f"SAM is competitive with {name}, its ECE at most a point above",
                "test/ece",
                better="sam",
                than=f"sgd + {method}",
                limit=POINT,
            )
            for method, name in _OTHERS.items()
        ),
        *(
            Contrast(f"SAM is better calibrated than {name}", "test/ece", better="sam", than=f"sgd + {method}")
            for method, name in ({"focal": "focal loss"} | _SMOOTHED | _MORE).items()
        ),
        Contrast(
            "SAM is more accurate than focal loss", "test/accuracy", better="sam", than="sgd + focal", lower=False
        ),
        *(
            Contrast(f"{name} has {what} than SGD", key, better=optimizer, than="sgd", lower=lower)
            for key, (what, lower) in _SCORED.items()
            for optimizer, name in (("sam", "SAM"), ("csam", "CSAM"))
        ),
        *(
            contrast
            for method, name in ({"focal": "focal loss"} | _SMOOTHED | {"rank1": "Rank1-BNN", "mimo": "MIMO"}).items()
            for contrast in (
                Contrast(f"{name} is better calibrated than SGD", "test/ece", better=f"sgd + {method}", than="sgd"),
                accuracy_cost(f"{name} is less accurate than SGD", f"sgd + {method}", "sgd"),
            )
        ),
    ),
)

check = METHODS.check
outcome = METHODS.outcome
