"""What the radius rho and the weight gamma do."""

from surefoot.studies.comparison import SCORES, Comparison, Contrast
from surefoot_papers.sam_calibration.rho_gamma._settings import over_settings
from surefoot_papers.sam_calibration.shared_claims import BOTH, SAM, TITLE, accuracy_cost

_SAM = "sam rho=0.05"  # Fig. S6 is at this rho
_HALF, _ONE, _TWO = (f"csam rho=0.05 gamma={gamma}" for gamma in (0.5, 1.0, 2.0))
RHO_GAMMA = Comparison(
    title=TITLE,
    contrasts=(
        SAM,
        BOTH,
        Contrast(
            "gamma 0.5 is better calibrated than SAM at rho 0.05", "test/ece", _HALF, _SAM, id="ece/gamma-0.5/sam"
        ),
        Contrast(
            "gamma 0.5 is more accurate than SAM at rho 0.05",
            "test/accuracy",
            _HALF,
            _SAM,
            lower=False,
            id="accuracy/gamma-0.5/sam",
        ),
        Contrast("gamma 1 is better calibrated than SAM at rho 0.05", "test/ece", _ONE, _SAM, id="ece/gamma-1/sam"),
        Contrast(
            "gamma 1 is better calibrated than gamma 0.5 at rho 0.05",
            "test/ece",
            _ONE,
            _HALF,
            id="ece/gamma-1/gamma-0.5",
        ),
        Contrast(
            "gamma 1 is better calibrated than gamma 2 at rho 0.05", "test/ece", _ONE, _TWO, id="ece/gamma-1/gamma-2"
        ),
        accuracy_cost("gamma 1 is less accurate than gamma 0.5 at rho 0.05", _ONE, _HALF, id="gamma-1/gamma-0.5"),
        accuracy_cost("gamma 2 is less accurate than gamma 1 at rho 0.05", _TWO, _ONE, id="gamma-2/gamma-1"),
    ),
    scores=(*SCORES, "test/entropy"),
    more=over_settings,
)

check = RHO_GAMMA.check
outcome = RHO_GAMMA.outcome
