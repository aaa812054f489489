"""When to observe."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Steps to observe at: every so many, and between them log-spaced ones, so dense early and thinner later.

    Step 0 always counts. The two grids stay apart by name because correlations over a run depend on which is used.

    >>> schedule = Schedule(every=50, per_decade=3)
    >>> [step for step in range(101) if schedule(step)]
    [0, 1, 2, 5, 10, 22, 46, 50, 100]
    """

    every: int = 20
    per_decade: int = 10  # log-spaced steps from each power of ten to the next; 0 for none

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"`every` must be at least 1, got {self.every}.")
        if self.per_decade < 0:
            raise ValueError(f"`per_decade` must be at least 0, got {self.per_decade}.")

    def __call__(self, step: int) -> bool:
        return self.equally_spaced(step) or self.log_spaced(step)

    def equally_spaced(self, step: int) -> bool:
        """Whether the step lies on the grid 0, every, 2 every, ..."""
        return step % self.every == 0

    def log_spaced(self, step: int) -> bool:
        """Whether the step lies on the grid 0, 10^(0/d), 10^(1/d), 10^(2/d), ... rounded, with d = per_decade."""
        if self.per_decade == 0:
            return False
        if step == 0:
            return True
        nearest = self.per_decade * (len(str(step)) - 1)
        return any(round(10 ** (k / self.per_decade)) == step for k in range(nearest, nearest + self.per_decade + 1))
