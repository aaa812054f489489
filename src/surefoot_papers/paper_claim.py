"""What a paper says, and the judged claims of our studies that answer it."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from surefoot.studies.claim import Claim, Verdict, conjunction, disjunction


@dataclass(frozen=True)
class PaperClaim:
    """One claim of a paper: where it stands, in our words, and the ids of the claims that answer it."""

    paper: str
    place: str
    says: str
    number: str = ""  # the paper's
    study: str = ""  # none: nothing answers
    scales: tuple[str, ...] = ()  # best first
    claims: tuple[str, ...] = ()  # ids, or the beginnings of ids, part by part
    opposite: bool = False  # the paper says that their statement is wrong
    some: bool = False  # one that is reproduced is enough
    why: str = ""  # the reason where it does not replicate, or what would be needed

    def __post_init__(self) -> None:
        if bool(self.study) != bool(self.scales and self.claims):
            raise ValueError(f"{self}: `study`, `scales` and `claims` must be given together.")
        if not self.study and not self.why:
            raise ValueError(f"{self}: `why` must say what would be needed where no study answers.")

    def __str__(self) -> str:
        return f"{self.place}, {self.says!r}"

    def verdict(self, claims: Sequence[Claim]) -> Verdict:
        """The verdict on it by the claims that answer; not tested without any."""
        if not claims:
            return Verdict.NOT_TESTED
        verdicts = [claim.verdict.opposite if self.opposite else claim.verdict for claim in claims]
        return disjunction(verdicts) if self.some else conjunction(verdicts)


def read_paper_claims(path: Path) -> tuple[dict[str, str], list[PaperClaim]]:
    """The papers' titles by their short names, and all claims, in the order of the file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    papers: dict[str, str] = content["papers"]
    keys = {field.name for field in fields(PaperClaim)}
    entries = []
    for number, given in enumerate(content["claim"], start=1):
        if wrong := given.keys() - keys:
            raise ValueError(f"Claim {number} has the unknown keys {sorted(wrong)}. Known: {', '.join(sorted(keys))}.")
        if missing := {"paper", "place", "says"} - given.keys():
            raise ValueError(f"Claim {number} must have {' and '.join(f'`{key}`' for key in sorted(missing))}.")
        scales = given.get("scales", content.get("scales", []) if given.get("study") else [])
        entry = PaperClaim(**{**given, "scales": tuple(scales), "claims": tuple(given.get("claims", ()))})
        if entry.paper not in papers:
            raise ValueError(f"{entry}: `paper` must be one of {', '.join(papers)}, got {entry.paper!r}.")
        entries.append(entry)
    return papers, entries


def answers(entry: PaperClaim, results: Path) -> dict[str, list[Claim]]:
    """The claims that answer, by the folder below `results`; best first, none where the study has no results yet.

    A scale some of whose runs are still to do comes after those that are whole.
    """
    if not entry.study or not (results / entry.study).is_dir():
        return {}
    whole: dict[str, list[Claim]] = {}
    partial: dict[str, list[Claim]] = {}
    for scale in entry.scales:
        path = results / entry.study / scale / "outcome.json"
        if path.is_file():
            outcome = json.loads(path.read_text(encoding="utf-8"))
            claims = [Claim.from_dict(record) for record in outcome["claims"]]
            if chosen := [claim for claim in claims if any(claim.within(name) for name in entry.claims)]:
                (partial if outcome["partial"] else whole)[f"{entry.study}/{scale}"] = chosen
    if not whole and not partial:
        where = ", ".join(f"{entry.study}/{scale}" for scale in entry.scales)
        raise ValueError(f"{entry}: `claims` must name one in {where}, got {', '.join(entry.claims)}.")
    return {**whole, **partial}
