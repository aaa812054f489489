"""SAM against its variants."""

from surefoot.studies.comparison import Comparison, Contrast
from surefoot_papers.sam_calibration.shared_claims import POINT, SAM, TITLE, accuracy_cost

SAM_VARIANTS = Comparison(
    title=TITLE,
    contrasts=(
        SAM,
        *(
            Contrast(f"CSAM is better calibrated than {name}", "test/ece", better="csam", than=optimizer)
            for optimizer, name in (("sam", "SAM"), ("asam", "ASAM"), ("vasso", "VASSO"), ("bsam", "bSAM"))
        ),
        *(
            Contrast(f"{name} is better calibrated than SGD", "test/ece", better=optimizer, than="sgd")
            for optimizer, name in (("asam", "ASAM"), ("vasso", "VASSO"))
        ),
        Contrast(
            "bSAM is not better calibrated than SAM, whose ECE is at most a point above",
            "test/ece",
            better="sam",
            than="bsam",
            limit=POINT,
        ),
        accuracy_cost("ASAM is less accurate than SAM", "asam", "sam"),
    ),
)

check = SAM_VARIANTS.check
outcome = SAM_VARIANTS.outcome
