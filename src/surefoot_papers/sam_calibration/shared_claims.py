"""What several studies of the paper claim alike."""

from surefoot.studies.comparison import Claim

POINT = 1.0  # of a percentage: what "competitive" and "almost as good" leave open; ours, the paper gives none
SAM = Claim("SAM is better calibrated than SGD", "test/ece", better="sam", than="sgd")
CSAM = Claim("CSAM is better calibrated than SAM", "test/ece", better="csam", than="sam")
BOTH = Claim("CSAM is better calibrated than SGD", "test/ece", better="csam", than="sgd")
