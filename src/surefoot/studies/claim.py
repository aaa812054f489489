"""A claim and what runs say of it: a record that tables, pages and figures are made from, never read back from text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from surefoot.table import Table


class Verdict(StrEnum):
    """What runs say of a claim."""

    REPRODUCED = "reproduced"
    INCONCLUSIVE = "inconclusive"
    NOT_SEEN = "not seen at this scale"
    NOT_TESTED = "not tested"

    @classmethod
    def of(cls, holds: bool, *, decided: bool = True) -> "Verdict":
        """Reproduced or not seen; inconclusive where the runs do not decide."""
        return (cls.REPRODUCED if holds else cls.NOT_SEEN) if decided else cls.INCONCLUSIVE

    @property
    def opposite(self) -> "Verdict":
        """The verdict on the claim that this one is wrong."""
        turned = {Verdict.REPRODUCED: Verdict.NOT_SEEN, Verdict.NOT_SEEN: Verdict.REPRODUCED}
        return turned.get(self, self)


@dataclass(frozen=True)
class Claim:
    """One statement, the numbers behind it, and the verdict.

    `id` is stable: a family, then what tells its members apart, as in `along/train-ece/train/gd`. The family names the
    rule in the study's file that says how the claim is judged. A claim that rests on several numbers has the one that
    its rule names first as its estimate; `measured` has all of them as tables print them.
    """

    id: str
    statement: str
    verdict: Verdict
    estimate: float | None = None  # None where nothing was measured
    low: float | None = None  # ends of the 95 % interval; None where there is none
    high: float | None = None
    n: tuple[int, ...] = ()  # how many values, or values of each of two groups that are not paired
    unit: str = ""  # of n where the claim counts cases: runs, steps, pairs
    setting: str = ""  # where the claim was judged, if its study has several: network, data, options
    measured: str = ""

    @property
    def family(self) -> str:
        """The first part of the id."""
        return self.id.partition("/")[0]

    def within(self, name: str) -> bool:
        """Whether `name` is this claim's id or the beginning of it, part by part."""
        return f"{self.id}/".startswith(f"{name}/")

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**asdict(self), "verdict": self.verdict.value}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Claim":
        """Read what `to_dict` wrote."""
        values = {field.name: record[field.name] for field in fields(cls) if field.name in record}
        return cls(**{**values, "verdict": Verdict(record["verdict"]), "n": tuple(record["n"])})


@dataclass(frozen=True)
class Rule:
    """How the claims of one family are judged, as a study's file says before any run."""

    family: str
    statistic: str
    interval: str
    threshold: str

    def to_dict(self) -> dict[str, str]:
        """As a study's file and record hold it, under its family."""
        return {"statistic": self.statistic, "interval": self.interval, "threshold": self.threshold}


def conjunction(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several claims at once: not seen where one is not, reproduced where all are.

    >>> str(conjunction([Verdict.REPRODUCED, Verdict.INCONCLUSIVE])), str(conjunction([]))
    ('inconclusive', 'inconclusive')
    """
    given = set(verdicts)
    if Verdict.NOT_SEEN in given:
        return Verdict.NOT_SEEN
    return Verdict.REPRODUCED if given == {Verdict.REPRODUCED} else Verdict.INCONCLUSIVE


def disjunction(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on the claim that at least one of several holds."""
    return conjunction(verdict.opposite for verdict in verdicts).opposite


def counted_claim(
    id: str,
    statement: str,
    cases: Sequence[bool],
    *,
    measured: str,
    unit: str = "runs",
    fewest: int = 1,
    setting: str = "",
) -> Claim:
    """The claim that something is true of every case; its estimate is the share of cases.

    Args:
        id: The claim's id.
        statement: What is claimed.
        cases: Whether it is true of each.
        measured: The count as tables print it.
        unit: What a case is.
        fewest: How many cases a reproduction needs.
        setting: Where the claim is judged.

    >>> str(counted_claim("a", "A", [True, False], measured="in 1 of 2 runs").verdict)
    'not seen at this scale'
    """
    return Claim(
        id=id,
        statement=statement,
        verdict=Verdict.of(all(cases), decided=len(cases) >= fewest or not all(cases)),
        estimate=sum(cases) / len(cases) if cases else None,
        n=(len(cases),),
        unit=unit,
        setting=setting,
        measured=measured,
    )


def slug(text: object) -> str:
    """A text as a part of an id: lower case, hyphens for anything else.

    >>> slug("GN, training set"), slug("sam rho=0.05"), slug("test/ece")
    ('gn-training-set', 'sam-rho-0.05', 'test-ece')
    """
    kept = "".join(char if char.isalnum() or char == "." else " " for char in str(text).lower())
    return "-".join(kept.split())


def claims_table(
    claims: Sequence[Claim], *, title: str, measured: str = "measured", notes: Sequence[str] = ()
) -> Table:
    """Claims as a table: statement with its setting, what was measured, verdict."""
    rows = tuple(
        (f"{c.statement} ({c.setting})" if c.setting else c.statement, c.measured or "-", str(c.verdict))
        for c in claims
    )
    return Table("claims", title, ("claim", measured, "verdict"), rows, tuple(notes))


def rules_table(rules: Sequence[Rule]) -> Table:
    """All rules of a study."""
    rows = tuple((rule.family, rule.statistic, rule.interval, rule.threshold) for rule in rules)
    return Table(
        "criteria", "How each claim is judged, by family", ("family", "statistic", "interval", "threshold"), rows
    )
