"""What *Towards Understanding the Calibration Benefits of SAM* says of methods, as comparisons."""

from surefoot.studies.comparison import SCORES, Claim, Comparison
from surefoot.studies.rho_gamma import over_settings
from surefoot.studies.sharp_ranks import along_methods

POINT = 1.0  # of a percentage: what "competitive" and "almost as good" leave open; ours, the paper gives none
_SAM = Claim("SAM is better calibrated than SGD", "test/ece", better="sam", than="sgd")
_CSAM = Claim("CSAM is better calibrated than SAM", "test/ece", better="csam", than="sam")
_BOTH = Claim("CSAM is better calibrated than SGD", "test/ece", better="csam", than="sgd")
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
    claims=(
        _SAM,
        _CSAM,
        _BOTH,
        *(
            Claim(f"{name} is more accurate than SGD", "test/accuracy", better=optimizer, than="sgd", lower=False)
            for optimizer, name in (("sam", "SAM"), ("csam", "CSAM"))
        ),
        Claim(
            "CSAM is about as accurate as SAM, at most a point below",
            "test/accuracy",
            better="csam",
            than="sam",
            lower=False,
            limit=POINT,
        ),
        *(
            Claim(f"CSAM is better calibrated than {name}", "test/ece", better="csam", than=f"sgd + {method}")
            for method, name in (_OTHERS | _SMOOTHED | _MORE).items()
        ),
        *(
            Claim(
                f"SAM is competitive with {name}, its ECE at most a point above",
                "test/ece",
                better="sam",
                than=f"sgd + {method}",
                limit=POINT,
            )
            for method, name in _OTHERS.items()
        ),
        *(
            Claim(f"SAM is better calibrated than {name}", "test/ece", better="sam", than=f"sgd + {method}")
            for method, name in ({"focal": "focal loss"} | _SMOOTHED | _MORE).items()
        ),
        Claim("SAM is more accurate than focal loss", "test/accuracy", better="sam", than="sgd + focal", lower=False),
        *(
            Claim(f"{name} has {what} than SGD", key, better=optimizer, than="sgd", lower=lower)
            for key, (what, lower) in _SCORED.items()
            for optimizer, name in (("sam", "SAM"), ("csam", "CSAM"))
        ),
        *(
            claim
            for method, name in ({"focal": "focal loss"} | _SMOOTHED | {"rank1": "Rank1-BNN", "mimo": "MIMO"}).items()
            for claim in (
                Claim(f"{name} is better calibrated than SGD", "test/ece", better=f"sgd + {method}", than="sgd"),
                Claim(f"{name} is less accurate than SGD", "test/accuracy", better=f"sgd + {method}", than="sgd"),
            )
        ),
    )
)
SAM_VARIANTS = Comparison(
    claims=(
        _SAM,
        *(
            Claim(f"CSAM is better calibrated than {name}", "test/ece", better="csam", than=optimizer)
            for optimizer, name in (("sam", "SAM"), ("asam", "ASAM"), ("vasso", "VASSO"), ("bsam", "bSAM"))
        ),
        *(
            Claim(f"{name} is better calibrated than SGD", "test/ece", better=optimizer, than="sgd")
            for optimizer, name in (("asam", "ASAM"), ("vasso", "VASSO"))
        ),
        Claim(
            "bSAM is not better calibrated than SAM, whose ECE is at most a point above",
            "test/ece",
            better="sam",
            than="bsam",
            limit=POINT,
        ),
        Claim("ASAM is less accurate than SAM", "test/accuracy", better="asam", than="sam"),
    )
)
_COMBINED = {"focal": "focal loss", "acls": "ACLS"}
COMBINATIONS = Comparison(
    claims=(
        *(
            Claim(
                f"{optimizer.upper()} improves the calibration of {name}",
                "test/ece",
                f"{optimizer} + {loss}",
                f"sgd + {loss}",
            )
            for loss, name in _COMBINED.items()
            for optimizer in ("sam", "csam")
        ),
        *(
            Claim(f"CSAM is better calibrated than SAM with {name}", "test/ece", f"csam + {loss}", f"sam + {loss}")
            for loss, name in _COMBINED.items()
        ),
    )
)
_HALF, _ONE, _TWO = (f"csam rho=0.05 gamma={gamma}" for gamma in (0.5, 1.0, 2.0))  # Fig. S6 is at this rho
RHO_GAMMA = Comparison(
    claims=(
        _SAM,
        _BOTH,
        Claim("gamma 0.5 is better calibrated than SAM at rho 0.05", "test/ece", _HALF, "sam rho=0.05"),
        Claim("gamma 0.5 is more accurate than SAM at rho 0.05", "test/accuracy", _HALF, "sam rho=0.05", lower=False),
        Claim("gamma 1 is better calibrated than SAM at rho 0.05", "test/ece", _ONE, "sam rho=0.05"),
        Claim("gamma 1 is better calibrated than gamma 0.5 at rho 0.05", "test/ece", _ONE, _HALF),
        Claim("gamma 1 is better calibrated than gamma 2 at rho 0.05", "test/ece", _ONE, _TWO),
        Claim("gamma 1 is less accurate than gamma 0.5 at rho 0.05", "test/accuracy", _ONE, _HALF),
        Claim("gamma 2 is less accurate than gamma 1 at rho 0.05", "test/accuracy", _TWO, _ONE),
    ),
    scores=(*SCORES, "test/entropy"),
    more=over_settings,
)
FLATNESS = Comparison(
    claims=(
        *(
            claim
            for method, name in (
                ("sam", "SAM"),
                ("csam", "CSAM"),
                ("sgd + focal", "focal loss"),
                ("sgd + label_smoothing", "label smoothing"),
            )
            for claim in (
                Claim(f"{name} is better calibrated than SGD", "test/ece", better=method, than="sgd"),
                Claim(f"{name} ends flatter than SGD", "train/hessian_sharpness", better=method, than="sgd"),
            )
        ),
        Claim("CSAM ends flatter than SAM", "train/hessian_sharpness", better="csam", than="sam"),
    ),
    scores=(*SCORES, "train/hessian_sharpness"),
    more=along_methods,
)
