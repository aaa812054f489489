"""What the committed results say about the effect of a change, as numbers that a diagnosis can cite.

`evidence.json` beside this file holds the numbers of this version; `make evidence` writes it.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal


@dataclass(frozen=True)
class Effect:
    """A mean change with its 95 % t-interval over n pairs of runs, or over all runs of two kinds."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def decided(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Evidence:
    """What came of one change to runs of one optimizer, in one study; all runs end overconfident on test samples."""

    kind: Literal["stop", "optimizer"]
    change: str  # in words, as something to do
    optimizer: str  # of the runs that were changed
    to: str  # the optimizer with its options after the change
    ece: Effect  # of test ECE
    accuracy: Effect  # of test accuracy
    n: int  # pairs, or runs with the change
    how: str
    source: str  # folder below results/


def evidence() -> tuple[Evidence, ...]:
    """All that this version of surefoot knows."""
    text = files("surefoot.diagnosis").joinpath("evidence.json").read_text(encoding="utf-8")
    return tuple(
        Evidence(**{**item, "ece": Effect(**item["ece"]), "accuracy": Effect(**item["accuracy"])})
        for item in json.loads(text)
    )
