"""Every claim of the papers beside what the committed results say of it, as one page of tables.

`python -m surefoot_papers.claims_page results` reads claims.toml and the judged claims of the studies in that folder,
and writes CLAIMS.md there. No number of ours is in claims.toml: an entry names a study and the claims that answer.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.studies.claim import Claim, Verdict
from surefoot.table import Table
from surefoot_papers.paper_claim import PaperClaim, answers, read_paper_claims

_SHOWN = 3  # claims whose numbers are printed; of more only the verdicts are counted
_HEAD = """\
# Every claim of the two papers, and what the committed results say

`make claims` writes this page from `src/surefoot_papers/claims.toml`, which holds the claims in our words and the
papers' numbers, and from the judged claims of the studies in this folder, which hold ours.

- A claim that rests on several of ours is reproduced where all of them are, and not seen where one is not, unless the
  claim is about some of them. The column `here` has the numbers of at most three.
- A difference is judged by its whole 95 % interval, with no correction for the number of claims; a correlation by its
  sign, not its size.
- The first folder under `evidence` is the best scale that answers; others follow with their verdicts, last those that
  still lack runs. The same runs may answer several claims.
- `digits` is far below the papers' scale: what is inconclusive there may be decided elsewhere.
"""


def render(papers: dict[str, str], entries: Sequence[PaperClaim], results: Path) -> str:
    """The whole page as Markdown."""
    answered = [(entry, answers(entry, results)) for entry in entries]
    lines, tables = [], []
    for paper, title in papers.items():
        own = [(entry, claims) for entry, claims in answered if entry.paper == paper]
        counts = Counter(entry.verdict(next(iter(claims.values()), [])) for entry, claims in own)
        lines.append(f"- {title}: {', '.join(f'{counts[v]} {v}' for v in Verdict)} ({len(own)} claims).")
        cells = [_cells(entry, claims) for entry, claims in own]
        shown = [key for key in (cells[0] if cells else {}) if key != "its number" or any(c[key] != "-" for c in cells)]
        body = tuple(tuple(each[key] for key in shown) for each in cells)
        tables.append(Table(name=paper, title=title, columns=tuple(shown), rows=body).markdown())
    return "\n".join([_HEAD, "In numbers:\n", *lines, "", *tables])


def _cells(entry: PaperClaim, by_folder: dict[str, list[Claim]]) -> dict[str, str]:
    folder, best = next(iter(by_folder.items()), ("", []))
    verdict = entry.verdict(best)
    why = entry.why or ("not known" if verdict is Verdict.NOT_SEEN else "-")
    if entry.study and not by_folder:
        why = f"results/{entry.study} is not recorded yet"
    others = [f"{where}: {entry.verdict(claims)}" for where, claims in by_folder.items() if where != folder]
    return {
        "claim": entry.says,
        "where": entry.place,
        "its number": entry.number or "-",
        "here": _here(best),
        "n": ", ".join(dict.fromkeys(filter(None, map(_count, best)))) or "-",
        "verdict": str(verdict) if len(best) < 2 else f"{verdict} ({_counted(entry, best)})",
        "why": "-" if verdict is Verdict.REPRODUCED else why,
        "evidence": "; ".join([f"[{folder}]({folder}/tables.md)" if best else "-", *others]),
    }


def _here(claims: Sequence[Claim]) -> str:
    if len(claims) > _SHOWN:
        return f"{len(claims)} claims"
    if len(claims) < 2:
        return (claims[0].measured or "-") if claims else "-"
    kinds = _differing([f"{claim.statement} ({claim.setting})" for claim in claims])
    return "<br>".join(f"{kind}: {c.measured}" if kind else c.measured for kind, c in zip(kinds, claims, strict=True))


def _differing(texts: Sequence[str]) -> list[str]:
    """Each text without the words that all of them begin or end with."""
    words = [text.split() for text in texts]
    while all(words) and len({each[0] for each in words}) == 1:
        words = [each[1:] for each in words]
    while all(words) and len({each[-1] for each in words}) == 1:
        words = [each[:-1] for each in words]
    return [" ".join(each).rstrip(":,") for each in words]


def _count(claim: Claim) -> str:
    return " ".join(filter(None, (" and ".join(map(str, claim.n)), claim.unit)))


def _counted(entry: PaperClaim, claims: Sequence[Claim]) -> str:
    counts = Counter(entry.verdict([claim]) for claim in claims)
    shown = [f"{verdict} {counts[verdict]}" for verdict in Verdict if counts[verdict]]
    return ", ".join(shown) if len(shown) > 1 else f"{len(claims)} claims"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    entries = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_name("claims.toml")
    write_atomically(folder / "CLAIMS.md", render(*read_paper_claims(entries), folder).encode())
