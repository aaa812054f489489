"""What several studies of the paper claim alike."""

from dataclasses import replace

from surefoot.studies.comparison import Contrast

TITLE = "What the paper says, and what these runs say"  # of the table of claims
POINT = 1.0  # of a percentage: what "competitive" and "almost as good" leave open; ours, the paper gives none
SAM = Contrast("SAM is better calibrated than SGD", "test/ece", better="sam", than="sgd")
CSAM = Contrast("CSAM is better calibrated than SAM", "test/ece", better="csam", than="sam")
BOTH = Contrast("CSAM is better calibrated than SGD", "test/ece", better="csam", than="sgd")


def accuracy_cost(statement: str, method: str, than: str, *, id: str = "") -> Contrast:
    """The claim that a method is less accurate than another."""
    made = Contrast(statement, "test/accuracy", better=method, than=than)
    return replace(made, id=f"accuracy-cost/{id or made.claim_id.partition('/')[2]}")
