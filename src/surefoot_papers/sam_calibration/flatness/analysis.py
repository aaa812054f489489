"""Do flatter minima come with better calibration?"""

from surefoot.studies.comparison import SCORES, Claim, Comparison
from surefoot_papers.sam_calibration.flatness._sharp_ranks import along_methods

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

check = FLATNESS.check
outcome = FLATNESS.outcome
