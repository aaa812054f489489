"""SAM against its variants."""

from surefoot.studies.comparison import Claim, Comparison
from surefoot_papers.sam_calibration.shared_claims import POINT, SAM

SAM_VARIANTS = Comparison(
    claims=(
        SAM,
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

check = SAM_VARIANTS.check
outcome = SAM_VARIANTS.outcome
