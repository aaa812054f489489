"""What *Towards Understanding the Calibration Benefits of SAM* says of methods, as comparisons."""

from surefoot.studies.comparison import SCORES, Claim, Comparison

_SAM = Claim("SAM is better calibrated than SGD", "test/ece", better="sam", than="sgd")
_CSAM = Claim("CSAM is better calibrated than SAM", "test/ece", better="csam", than="sam")
_BOTH = Claim("CSAM is better calibrated than SGD", "test/ece", better="csam", than="sgd")

METHODS = Comparison(
    claims=(
        _SAM,
        _CSAM,
        _BOTH,
        Claim("CSAM is more accurate than SGD", "test/accuracy", better="csam", than="sgd", lower=False),
        *(
            Claim(f"CSAM is better calibrated than {name}", "test/ece", better="csam", than=f"sgd + {loss}")
            for loss, name in (
                ("focal", "focal loss"),
                ("dual_focal", "dual focal loss"),
                ("label_smoothing", "label smoothing"),
                ("mbls", "MbLS"),
                ("acls", "ACLS"),
                ("mdca", "MDCA"),
                ("cpc", "CPC"),
                ("mixup", "mixup"),
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
    )
)
COMBINATIONS = Comparison(
    claims=tuple(
        Claim(
            f"{optimizer.upper()} improves the calibration of {name}",
            "test/ece",
            f"{optimizer} + {loss}",
            f"sgd + {loss}",
        )
        for loss, name in (("focal", "focal loss"), ("acls", "ACLS"))
        for optimizer in ("sam", "csam")
    )
)
RHO_GAMMA = Comparison(claims=(_SAM, _BOTH), scores=(*SCORES, "test/entropy"))
FLATNESS = Comparison(
    claims=(
        _SAM,
        _BOTH,
        Claim("SAM ends flatter than SGD", "train/hessian_sharpness", better="sam", than="sgd"),
        Claim("CSAM ends flatter than SGD", "train/hessian_sharpness", better="csam", than="sgd"),
    ),
    scores=(*SCORES, "train/hessian_sharpness"),
)
