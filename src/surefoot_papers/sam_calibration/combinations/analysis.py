"""SAM and CSAM together with calibrating losses."""

from surefoot.studies.comparison import Comparison, Contrast
from surefoot_papers.sam_calibration.shared_claims import TITLE

_LOSSES = {"focal": "focal loss", "acls": "ACLS"}
COMBINATIONS = Comparison(
    title=TITLE,
    contrasts=(
        *(
            Contrast(
                f"{optimizer.upper()} improves the calibration of {name}",
                "test/ece",
                f"{optimizer} + {loss}",
                f"sgd + {loss}",
                id=f"loss-improved/{loss}/{optimizer}",
            )
            for loss, name in _LOSSES.items()
            for optimizer in ("sam", "csam")
        ),
        *(
            Contrast(
                f"CSAM is better calibrated than SAM with {name}",
                "test/ece",
                f"csam + {loss}",
                f"sam + {loss}",
                id=f"ece/csam/sam/{loss}",
            )
            for loss, name in _LOSSES.items()
        ),
    ),
)

check = COMBINATIONS.check
outcome = COMBINATIONS.outcome
