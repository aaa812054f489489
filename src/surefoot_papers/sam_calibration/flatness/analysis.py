"""Do flatter minima come with better calibration?"""

from surefoot.studies.comparison import SCORES, Comparison, Contrast
from surefoot_papers.sam_calibration.flatness._sharp_ranks import over_methods
from surefoot_papers.sam_calibration.shared_claims import TITLE

FLATNESS = Comparison(
    title=TITLE,
    contrasts=(
        *(
            contrast
            for method, name in (
                ("sam", "SAM"),
                ("csam", "CSAM"),
                ("sgd + focal", "focal loss"),
                ("sgd + label_smoothing", "label smoothing"),
            )
            for contrast in (
                Contrast(f"{name} is better calibrated than SGD", "test/ece", better=method, than="sgd"),
                Contrast(f"{name} ends flatter than SGD", "train/hessian_sharpness", better=method, than="sgd"),
            )
        ),
        Contrast("CSAM ends flatter than SAM", "train/hessian_sharpness", better="csam", than="sam"),
    ),
    scores=(*SCORES, "train/hessian_sharpness"),
    more=over_methods,
)

check = FLATNESS.check
outcome = FLATNESS.outcome
