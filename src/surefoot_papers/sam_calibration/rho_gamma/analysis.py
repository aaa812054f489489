"""What the radius rho and the weight gamma do."""

from surefoot.studies.comparison import SCORES, Claim, Comparison
from surefoot_papers.sam_calibration.rho_gamma._settings import over_settings
from surefoot_papers.sam_calibration.shared_claims import BOTH, SAM

_HALF, _ONE, _TWO = (f"csam rho=0.05 gamma={gamma}" for gamma in (0.5, 1.0, 2.0))  # Fig. S6 is at this rho
RHO_GAMMA = Comparison(
    claims=(
        SAM,
        BOTH,
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

check = RHO_GAMMA.check
outcome = RHO_GAMMA.outcome
