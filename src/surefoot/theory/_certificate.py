"""An inequality of the theory, evaluated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Verdict = Literal["holds", "fails", "assumption not met"]
_NOT_A_NUMBER = "a number that float64 can hold"
_RELATIVE, _ABSOLUTE = 1e-7, 1e-15  # what rounding in float64 may add


@dataclass(frozen=True)
class Certificate:
    """`measured` <= `bound`, as the theory says under its assumptions, and whether it is so.

    `verdict` is "assumption not met" where one of them is not verified; `assumptions` then says which. A verdict of
    "fails" means a bug or a broken proof. Numbers are kept however large: early in training bounds are astronomic.
    """

    name: str
    bound: float
    measured: float
    verdict: Verdict
    assumptions: tuple[str, ...] = ()  # what it rests on, or which of that is not met

    @property
    def slack(self) -> float:
        """The bound over the measured value: 1 is tight. Infinite where nothing is measured."""
        return self.bound / self.measured if self.measured > 0 else math.inf

    @property
    def holds(self) -> bool | None:
        """True or False, or None where an assumption is not met."""
        return None if self.verdict == "assumption not met" else self.verdict == "holds"


def certificate(
    name: str,
    *,
    measured: Tensor | float,
    bound: Tensor | float,
    assumptions: Sequence[str] = (),
    unmet: Sequence[str] = (),
) -> Certificate:
    """Compare two numbers; anything in `unmet` makes the verdict "assumption not met"."""
    measured, bound = float(measured), float(bound)
    if not unmet and (math.isnan(measured) or math.isnan(bound)):
        unmet = (_NOT_A_NUMBER,)
    if unmet:
        return Certificate(name, bound, measured, "assumption not met", tuple(unmet))
    verdict: Verdict = "holds" if measured <= bound * (1 + _RELATIVE) + _ABSOLUTE else "fails"
    return Certificate(name, bound, measured, verdict, tuple(assumptions))


def worst_of(
    name: str,
    *,
    log_measured: Tensor,
    log_bound: Tensor,
    assumptions: Sequence[str] = (),
    unmet: Sequence[str] = (),
) -> Certificate:
    """The same for each of N samples, by logarithms [N]: one that fails speaks for all, else the nearest to failing."""
    if bool(log_measured.isnan().any() or log_bound.isnan().any()):
        return certificate(name, measured=math.nan, bound=math.nan, unmet=unmet)
    excess = (log_measured - log_bound).nan_to_num(nan=-torch.inf)  # of two infinities: both sides are 0
    fails = (excess > math.log1p(_RELATIVE)) & (log_measured.exp() - log_bound.exp() > _ABSOLUTE)
    worst = int(torch.where(fails, excess, -torch.inf).argmax() if bool(fails.any()) else excess.argmax())
    return certificate(
        name, measured=log_measured[worst].exp(), bound=log_bound[worst].exp(), assumptions=assumptions, unmet=unmet
    )
