"""Every claim of the papers beside what the committed results say of it, as one page of tables.

`python -m surefoot_papers.claims_page results` reads claims.toml and the tables of the studies in that folder, and
writes CLAIMS.md there. No number of ours is in claims.toml: an entry names a study and the rows that answer.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.table import Table
from surefoot_papers.answers import VERDICTS, Entry, Row, answers, read_entries, verdict_of

_SHOWN = 3  # rows whose measured cells are printed; of more only the verdicts are counted
_NUMBER = re.compile(r"\(n=(\d+(?: and \d+)?)\)")
_CASES = re.compile(r"\b(?:of|in) (\d+ (?!of\b)[a-z]+)")  # "in 6 of 7 runs" is about 7 runs
_HEAD = """\
# Every claim of the two papers, and what the committed results say

`make claims` writes this page from `claims.toml`, which holds the claims in our words and the papers' numbers, and
from the tables of the studies beside it, which hold ours.

- A claim that rests on several rows holds where all of them do and does not hold where one does not, unless it is
  about some of them. `here` has the numbers of at most three rows.
- A difference is judged by its whole 95 % interval, with no correction for the number of claims; a correlation by its
  sign, not its size.
- The first folder under `look at` is the best scale that answers; others follow with their verdicts, last those that
  still lack runs. The same runs may answer several claims.
- `digits` is far below the papers' scale: what cannot be told there may be told elsewhere.
"""


def render(papers: dict[str, str], entries: Sequence[Entry], results: Path) -> str:
    """The whole page as Markdown."""
    found = [(entry, answers(entry, results)) for entry in entries]
    lines, tables = [], []
    for paper, title in papers.items():
        own = [(entry, rows) for entry, rows in found if entry.paper == paper]
        best = [verdict_of(next(iter(rows.values()), []), some=entry.some) for entry, rows in own]
        parts = [f"{best.count(verdict)} {told}" for verdict, told in VERDICTS.items()]
        lines.append(f"- {title}: of {len(own)} claims {', '.join(parts[:-1])}, and {parts[-1]}.")
        cells = [_cells(entry, rows) for entry, rows in own]
        shown = [key for key in (cells[0] if cells else {}) if key != "its number" or any(c[key] != "-" for c in cells)]
        body = tuple(tuple(each[key] for key in shown) for each in cells)
        tables.append(Table(name=paper, title=title, columns=tuple(shown), rows=body).markdown())
    return "\n".join([_HEAD, "In numbers:\n", *lines, "", *tables])


def _cells(entry: Entry, rows: dict[str, list[Row]]) -> dict[str, str]:
    folder, best = next(iter(rows.items()), ("", []))
    verdict = verdict_of(best, some=entry.some)
    why = entry.why or ("not known" if verdict == "does not hold" else "-")
    if entry.study and not rows:
        why = f"results/{entry.study} is not recorded yet"
    others = [f"{where}: {verdict_of(other, some=entry.some)}" for where, other in rows.items() if where != folder]
    look = f"[{folder}]({folder}), {'differences' if entry.column else 'claims'}.csv" if rows else "-"
    return {
        "claim": entry.says,
        "where": entry.place,
        "its number": entry.number or "-",
        "here": _here(best),
        "n": ", ".join(dict.fromkeys(filter(None, map(_n, best)))) or "-",
        "verdict": verdict if len(best) < 2 else f"{verdict} ({_counted(best)})",
        "why": "-" if verdict == "holds" else why,
        "look at": "; ".join([look, *others]),
    }


def _here(rows: Sequence[Row]) -> str:
    if len(rows) > _SHOWN:
        return f"{len(rows)} rows"
    if len(rows) < 2:
        return rows[0].measured if rows else "-"
    kinds = _differing([row.about for row in rows])
    told = [f"{kind}: {row.measured}" if kind else row.measured for kind, row in zip(kinds, rows, strict=True)]
    return "<br>".join(told)


def _differing(texts: Sequence[str]) -> list[str]:
    """Each text without the words that all of them begin or end with."""
    words = [text.split() for text in texts]
    while all(words) and len({each[0] for each in words}) == 1:
        words = [each[1:] for each in words]
    while all(words) and len({each[-1] for each in words}) == 1:
        words = [each[:-1] for each in words]
    return [" ".join(each).rstrip(":,") for each in words]


def _n(row: Row) -> str:
    """As the measured cell gives it: of values, else of whatever was counted."""
    values = dict.fromkeys(_NUMBER.findall(row.measured)) or dict.fromkeys(_CASES.findall(row.measured)[:1])
    return ", ".join(values)


def _counted(rows: Sequence[Row]) -> str:
    said = [row.verdict for row in rows]
    counts = [f"{verdict} {said.count(verdict)}" for verdict in VERDICTS if verdict in said]
    return ", ".join(counts) if len(counts) > 1 else f"{len(rows)} rows"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    page = render(*read_entries(Path(__file__).with_name("claims.toml")), folder)
    write_atomically(folder / "CLAIMS.md", page.encode())
