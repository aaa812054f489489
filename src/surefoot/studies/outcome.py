"""What an analysis returns: tables and judged claims."""

from dataclasses import dataclass

from surefoot.studies.claim import Claim, claims_table
from surefoot.table import Table


@dataclass(frozen=True)
class Outcome:
    """What an analysis says of the runs of a study that are done."""

    tables: tuple[Table, ...] = ()  # the most important one first
    claims: tuple[Claim, ...] = ()
    title: str = "What is claimed, and what these runs say"  # of the table of claims
    measured: str = "measured"  # the heading of what was measured there
    notes: tuple[str, ...] = ()  # under that table

    def __post_init__(self) -> None:
        ids = [claim.id for claim in self.claims]
        twice = sorted({id for id in ids if ids.count(id) > 1})
        if twice:
            raise ValueError(f"`claims` must have ids of their own, got {', '.join(twice)} more than once.")

    @property
    def claims_table(self) -> Table:
        """The claims as a table."""
        return claims_table(self.claims, title=self.title, measured=self.measured, notes=self.notes)
