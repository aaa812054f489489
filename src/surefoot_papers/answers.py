"""Claims of papers, and the rows of committed tables that answer them."""

import csv
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

Verdict = Literal["holds", "does not hold", "cannot tell", "not measured"]
VERDICTS: dict[Verdict, str] = {  # as it is counted
    "holds": "hold",
    "does not hold": "do not hold",
    "cannot tell": "cannot be told",
    "not measured": "are not measured",
}
_OPPOSITE: dict[Verdict, Verdict] = {"holds": "does not hold", "does not hold": "holds"}
_INTERVAL = re.compile(r"\[([-+.\d]+), ([-+.\d]+)\]")


@dataclass(frozen=True)
class Entry:
    """One claim: whose, where, in our words, and the rows that answer it."""

    paper: str
    place: str
    says: str
    number: str = ""  # the paper's
    study: str = ""  # none: nothing answers
    scales: tuple[str, ...] = ()  # best first
    match: str = ""  # regular expression, searched in what a row is about
    column: str = ""  # of differences.csv; none: the rows of claims.csv, with the verdicts given there
    sign: Literal["", "below", "above"] = ""  # the side of 0 on which the difference should lie
    opposite: bool = False  # the claim is that the rows' statement is wrong
    some: bool = False  # one row that holds is enough
    why: str = ""  # the reason where it does not replicate, or what would be needed

    def __post_init__(self) -> None:
        if bool(self.study) != bool(self.scales and self.match):
            raise ValueError(f"{self}: `study`, `scales` and `match` must be given together.")
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"{self}: `match` must be a regular expression, got {self.match!r}: {error}.") from None
        if not self.study and not self.why:
            raise ValueError(f"{self}: `why` must say what would be needed where no study answers.")
        if bool(self.column) != bool(self.sign) or self.sign not in ("", "below", "above"):
            raise ValueError(f"{self}: `sign` must be below or above where `column` is given, got {self.sign!r}.")

    def __str__(self) -> str:
        return f"{self.place}, {self.says!r}"


@dataclass(frozen=True)
class Row:
    """What a row of a study's table is about, what it says, and how that was judged."""

    about: str
    measured: str
    verdict: Verdict


def read_entries(path: Path) -> tuple[dict[str, str], list[Entry]]:
    """The papers' titles by their short names, and all claims, in the order of the file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    papers: dict[str, str] = content["papers"]
    known = {field.name for field in fields(Entry)}
    entries = []
    for number, given in enumerate(content["claim"], start=1):
        if wrong := given.keys() - known:
            raise ValueError(f"Claim {number} has the unknown keys {sorted(wrong)}. Known: {', '.join(sorted(known))}.")
        if missing := {"paper", "place", "says"} - given.keys():
            raise ValueError(f"Claim {number} must have {' and '.join(f'`{key}`' for key in sorted(missing))}.")
        scales = given.get("scales", content.get("scales", []) if given.get("study") else [])
        entry = Entry(**{**given, "scales": tuple(scales)})
        if entry.paper not in papers:
            raise ValueError(f"{entry}: `paper` must be one of {', '.join(papers)}, got {entry.paper!r}.")
        entries.append(entry)
    return papers, entries


def answers(entry: Entry, results: Path) -> dict[str, list[Row]]:
    """The rows that answer, by the folder below `results`; best first, none where the study has no results yet.

    A scale some of whose runs are still to do comes after those that are whole.
    """
    if not entry.study or not (results / entry.study).is_dir():
        return {}
    found = {}
    for scale in entry.scales:
        path = results / entry.study / scale / ("differences.csv" if entry.column else "claims.csv")
        if path.is_file() and (rows := list(_matching(entry, path))):
            found[f"{entry.study}/{scale}"] = rows
    if not found:
        where = ", ".join(f"{entry.study}/{scale}" for scale in entry.scales)
        raise ValueError(f"{entry}: `match` must find a row in one of {where}, got {entry.match!r}.")
    return dict(sorted(found.items(), key=lambda item: is_partial(results / item[0])))


def is_partial(folder: Path) -> bool:
    """Whether a study's archive lacks some of its runs."""
    record = folder / "study.json"
    wanted = json.loads(record.read_text(encoding="utf-8"))["runs"] if record.is_file() else ()
    return any(not (folder / "runs" / name).is_dir() for name in wanted)


def _matching(entry: Entry, path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    last = next(k for k, name in enumerate(header) if name in ("claim", "method", "optimizer"))
    if entry.column and entry.column not in header:
        raise ValueError(f"{entry}: `column` must be one of {', '.join(header[last + 1 :])}, got {entry.column!r}.")
    for line in lines:
        about = ", ".join(reversed(line[: last + 1]))  # what is claimed, then of which network
        if re.search(entry.match, about):
            if entry.column:
                cell = line[header.index(entry.column)]
                verdict = _judged(cell, below=entry.sign == "below")
            else:
                cells = {name: cell for name, cell in zip(header[last + 1 : -1], line[last + 1 : -1], strict=True)}
                told = [(name, cell) for name, cell in cells.items() if cell not in ("", "-")]
                cell = "; ".join(cell if len(cells) == 1 else f"{name}: {cell}" for name, cell in told)
                verdict = _read(line[-1])
            yield Row(about, cell or "-", _OPPOSITE.get(verdict, verdict) if entry.opposite else verdict)


def _judged(cell: str, *, below: bool) -> Verdict:
    """By the whole interval, as the studies do."""
    interval = _INTERVAL.search(cell)
    if interval is None:
        return "cannot tell"
    low, high = map(float, interval.groups())
    if low <= 0 <= high:
        return "cannot tell"
    return "holds" if (high < 0) == below else "does not hold"


def _read(verdict: str) -> Verdict:
    """A study's own verdict, which may go on after its first words."""
    told = (known for known in VERDICTS if verdict.startswith(known))
    return next(told, "cannot tell")


def verdict_of(rows: Sequence[Row], *, some: bool = False) -> Verdict:
    """Of a claim about all its rows, or with `some` about one of them; nothing is measured without rows."""
    if not rows:
        return "not measured"
    said = {row.verdict for row in rows}
    decides: Verdict = "holds" if some else "does not hold"
    return decides if decides in said else _OPPOSITE[decides] if said == {_OPPOSITE[decides]} else "cannot tell"
