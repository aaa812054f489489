"""How the claims of a study are tested, as its file says before any run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.registry import unknown
from surefoot.runs.typecheck import check_type
from surefoot.table import Table

_KEYS = {"claims": list[str], "statistic": str, "interval": str, "threshold": str}


@dataclass(frozen=True)
class Criterion:
    """What is computed for some claims of a study, how sure that is, and where the verdict turns."""

    claims: tuple[str, ...]  # statements as tables have them, * for any words
    statistic: str
    interval: str
    threshold: str

    @classmethod
    def of(cls, table: Any) -> "Criterion":
        """From a table of [[claims]]; ValueError where it is not as it should be."""
        check_type("claims", table, dict)
        for key in table:
            if key not in _KEYS:
                raise unknown("key in [[claims]]", key, _KEYS)
        for key, hint in _KEYS.items():
            if not table.get(key):
                raise ValueError(f"[[claims]] needs `{key}`.")
            check_type(key, table[key], hint)
        return cls(**{**table, "claims": tuple(table["claims"])})

    def covers(self, statement: str) -> bool:
        """Whether it says how this claim is tested; what stands in brackets at its end is the setting.

        >>> Criterion(("* is better than SGD",), "", "", "").covers("SAM is better than SGD (CNN)")
        True
        """
        patterns = (".*".join(map(re.escape, claim.split("*"))) for claim in self.claims)
        return any(re.fullmatch(rf"{pattern}( \(.*\))?", statement) for pattern in patterns)


def criteria_table(criteria: Sequence[Criterion]) -> Table:
    """All criteria of a study."""
    rows = tuple((" / ".join(c.claims), c.statistic, c.interval, c.threshold) for c in criteria)
    return Table("criteria", "How each claim is tested (* for any words)", tuple(_KEYS), rows)
