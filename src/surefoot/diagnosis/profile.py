"""How sure a model was and how right, of a set of samples and of its parts: plain numbers, without torch."""

import math
from dataclasses import dataclass
from typing import Literal

from surefoot.proportion import wilson

Lean = Literal["over", "under", "undecided"]


@dataclass(frozen=True)
class Group:
    """Some samples: their mean confidence, their accuracy, and limits of the difference; NaN where n is not known.

    The limits are Wilson's for the accuracy, given the confidences.

    >>> sure = Group.of("all", count=100, confidence=0.9, accuracy=0.7)
    >>> f"{sure.gap:+.2f} [{sure.low:+.2f}, {sure.high:+.2f}]", sure.lean
    ('+0.20 [+0.12, +0.30]', 'over')
    """

    name: str
    count: int | None
    confidence: float
    accuracy: float
    low: float  # of confidence - accuracy
    high: float

    @classmethod
    def of(
        cls, name: str, *, count: int | None, confidence: float, accuracy: float, level: float = 0.95, among: int = 1
    ) -> "Group":
        """The group with its limits, which hold for all of `among` groups at once (Bonferroni)."""
        low, high = math.nan, math.nan
        if count:
            bottom, top = wilson(accuracy, count, tail=(1 - level) / 2 / among)
            low, high = confidence - top, confidence - bottom
        return cls(name, count, confidence, accuracy, low, high)

    @property
    def gap(self) -> float:
        """Confidence - accuracy: positive where overconfident."""
        return self.confidence - self.accuracy

    @property
    def lean(self) -> Lean:
        """Which way the confidence is off, where the limits leave no doubt."""
        return "over" if self.low > 0 else "under" if self.high < 0 else "undecided"


@dataclass(frozen=True)
class Sample:
    """One sample, by its place in the data."""

    index: int
    label: int
    predicted: int
    confidence: float
    margin: float  # true margin, in logits
    share: float  # of the sum of exp(-margin) over all samples


@dataclass(frozen=True)
class Profile:
    """What is known of one split; a part that is not known is empty, a number None."""

    split: str
    whole: Group
    ece: float
    ece_limits: tuple[float, float] | None = None
    p_value: float | None = None  # of the ECE under perfect calibration
    classes: tuple[Group, ...] = ()  # by predicted class
    bins: tuple[Group, ...] = ()  # by confidence, those that hold samples
    carriers: tuple[Sample, ...] = ()  # smallest margins first
    tail: tuple[tuple[float, float], ...] = ()  # the worst part of the samples, and its share of sum exp(-margin)
    wrong: tuple[Sample, ...] = ()  # wrong, most confident first
    num_wrong: int | None = None
