"""SAM and CSAM together with calibrating losses."""

from surefoot.studies.comparison import Claim, Comparison

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

check = COMBINATIONS.check
outcome = COMBINATIONS.outcome
