"""The page of claims: the committed one, and made-up folders."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.study import study_files
from surefoot_papers.claims_page import render
from surefoot_papers.paper_claim import PaperClaim, answers, read_paper_claims

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
ENTRIES = ROOT / "src" / "surefoot_papers" / "claims.toml"
REPRODUCED, INCONCLUSIVE, NOT_SEEN, NOT_TESTED = Verdict


def test_the_committed_page_is_what_the_command_writes() -> None:
    page = render(*read_paper_claims(ENTRIES), RESULTS)
    assert (RESULTS / "CLAIMS.md").read_text(encoding="utf-8") == page, "make claims"


def test_every_committed_entry_is_answered_or_says_why_not() -> None:
    studies = study_files()
    _, entries = read_paper_claims(ENTRIES)
    assert len(entries) > 150
    for entry in entries:
        if entry.study:
            assert entry.study in studies, entry
        if (RESULTS / entry.study).is_dir() and entry.study:
            assert answers(entry, RESULTS), entry


def test_every_id_in_a_committed_entry_names_a_committed_claim() -> None:
    ids: dict[str, list[Claim]] = {}
    for path in RESULTS.glob("*/*/outcome.json"):
        ids.setdefault(path.parts[-3], []).extend(map(Claim.from_dict, json.loads(path.read_text())["claims"]))
    unused = [
        (entry.study, name)
        for entry in read_paper_claims(ENTRIES)[1]
        for name in entry.claims
        if entry.study in ids and not any(claim.within(name) for claim in ids[entry.study])
    ]
    assert not unused


def test_every_claim_that_a_committed_study_judges_is_on_the_page() -> None:
    _, entries = read_paper_claims(ENTRIES)
    shown = {(folder, c.id) for entry in entries for folder, claims in answers(entry, RESULTS).items() for c in claims}
    judged = {
        (f"{path.parts[-3]}/{path.parts[-2]}", record["id"])
        for path in RESULTS.glob("*/*/outcome.json")
        for record in json.loads(path.read_text())["claims"]
    }
    assert len(judged) > 500
    assert sorted(judged - shown) == [], "claims.toml lacks an entry for these"


def _entry(**changed: object) -> PaperClaim:
    given = {"paper": "a", "place": "Table 1", "says": "it is so", "study": "one", "scales": ("large", "small")}
    return PaperClaim(**{**given, "claims": ("r/gd",), **changed})  # type: ignore[arg-type]


def _claim(id: str, verdict: Verdict, measured: str, n: tuple[int, ...] = (), unit: str = "") -> Claim:
    return Claim(id, f"r > 0 under {id.rpartition('/')[2]}", verdict, n=n, unit=unit, measured=measured)


CLAIMS = (
    _claim("r/gd", REPRODUCED, "0.5 ± 0.1 (n=4)", (4,)),
    _claim("r/sgd", INCONCLUSIVE, "0.1 ± 0.5 (n=3)", (3,)),
    _claim("r/sam", NOT_SEEN, "in 1 of 7 runs", (7,), "runs"),
)


def _store(
    results: Path, scale: str, claims: tuple[Claim, ...] = CLAIMS, *, study: str = "one", partial: bool = False
) -> None:
    folder = results / study / scale
    folder.mkdir(parents=True, exist_ok=True)
    content = {"partial": partial, "claims": [claim.to_dict() for claim in claims]}
    (folder / "outcome.json").write_text(json.dumps(content), encoding="utf-8")


def test_claims_are_chosen_by_id_or_by_the_beginning_of_one(tmp_path: Path) -> None:
    _store(tmp_path, "small", (*CLAIMS, _claim("r/gd-2", REPRODUCED, "-"), _claim("rank/gd", NOT_SEEN, "-")))
    assert answers(_entry(), tmp_path) == {"one/small": [CLAIMS[0]]}
    assert [claim.id for claim in answers(_entry(claims=("r",)), tmp_path)["one/small"]] == [
        *("r/gd", "r/sgd", "r/sam", "r/gd-2")
    ]
    flipped = _entry(claims=("r/sam",), opposite=True)
    assert flipped.verdict(answers(flipped, tmp_path)["one/small"]) is REPRODUCED


def test_the_best_scale_that_has_the_claim_comes_first(tmp_path: Path) -> None:
    _store(tmp_path, "small")
    _store(tmp_path, "large", (_claim("r/gd", NOT_SEEN, "0.9 (n=1)", (1,)),))
    assert list(answers(_entry(), tmp_path)) == ["one/large", "one/small"]
    assert list(answers(_entry(claims=("r/sam",)), tmp_path)) == ["one/small"]
    page = render({"a": "A"}, [_entry()], tmp_path)
    assert "| [one/large](one/large/tables.md); one/small: reproduced |" in page
    assert "- A: 0 reproduced, 0 inconclusive, 1 not seen at this scale, 0 not tested (1 claims)." in page


def test_a_scale_that_still_lacks_runs_comes_last(tmp_path: Path) -> None:
    _store(tmp_path, "large", partial=True)
    _store(tmp_path, "small")
    assert list(answers(_entry(), tmp_path)) == ["one/small", "one/large"]
    _store(tmp_path, "large")
    assert list(answers(_entry(), tmp_path)) == ["one/large", "one/small"]


@pytest.mark.parametrize(
    ("verdicts", "every", "some"),
    [
        ([], NOT_TESTED, NOT_TESTED),
        ([REPRODUCED, REPRODUCED], REPRODUCED, REPRODUCED),
        ([REPRODUCED, INCONCLUSIVE], INCONCLUSIVE, REPRODUCED),
        ([REPRODUCED, INCONCLUSIVE, NOT_SEEN], NOT_SEEN, REPRODUCED),
        ([INCONCLUSIVE, NOT_SEEN], NOT_SEEN, INCONCLUSIVE),
        ([NOT_SEEN], NOT_SEEN, NOT_SEEN),
    ],
)
def test_an_entry_is_about_all_its_claims_or_about_some(verdicts: list[Verdict], every: Verdict, some: Verdict) -> None:
    claims = [_claim(f"r/{k}", verdict, "") for k, verdict in enumerate(verdicts)]
    assert (_entry().verdict(claims), _entry(some=True).verdict(claims)) == (every, some)


def test_the_page(tmp_path: Path) -> None:
    _store(tmp_path, "small", (*CLAIMS, _claim("r/csam", REPRODUCED, "")))
    entries = [
        _entry(number=".9", why="not shown: it is reproduced"),
        _entry(claims=("r/sgd", "r/sam")),
        _entry(claims=("r",)),
        _entry(study="", scales=(), claims=(), why="would need more"),
        _entry(study="two"),
        _entry(paper="b", claims=("r/sam",), place="B"),
    ]
    page = render({"a": "Paper A", "b": "Ours"}, entries, tmp_path)
    look = "[one/small](one/small/tables.md) |"
    assert f"| it is so | Table 1 | .9 | 0.5 ± 0.1 (n=4) | 4 | reproduced | - | {look}" in page
    both = "sgd: 0.1 ± 0.5 (n=3)<br>sam: in 1 of 7 runs | 3, 7 runs"
    verdict = "not seen at this scale (inconclusive 1, not seen at this scale 1)"
    assert f"| - | {both} | {verdict} | not known | {look}" in page
    counts = "reproduced 2, inconclusive 1, not seen at this scale 1"
    assert f"| - | 4 claims | 4, 3, 7 runs | not seen at this scale ({counts}) | not known |" in page
    assert "| it is so | Table 1 | - | - | - | not tested | would need more | - |" in page
    assert "| not tested | results/two is not recorded yet | - |" in page
    assert "- Paper A: 1 reproduced, 0 inconclusive, 2 not seen at this scale, 2 not tested (5 claims)." in page
    assert "**Ours**\n\n| claim | where | here | n | verdict | why | evidence |" in page  # no paper, no number
    assert page == render({"a": "Paper A", "b": "Ours"}, entries, tmp_path)


def test_an_entry_that_no_claim_answers_is_named(tmp_path: Path) -> None:
    _store(tmp_path, "small")
    with pytest.raises(ValueError, match=r"Table 1, 'it is so': `claims` must name one in one/large, one/small"):
        answers(_entry(claims=("r/muon",)), tmp_path)
    with pytest.raises(ValueError, match=r"`claims` must name one in one/large, got r/gd"):
        answers(_entry(scales=("large",)), tmp_path)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"claims": ()}, "must be given together"),
        ({"study": ""}, "must be given together"),
        ({"study": "", "scales": (), "claims": ()}, "`why` must say what would be needed"),
    ],
)
def test_a_wrong_entry_is_refused(changed: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=f"^Table 1, 'it is so': .*{error}"):
        _entry(**changed)


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        (
            'paper = "a"\nplace = "x"\nsays = "y"\nmatched = "z"',
            r"Claim 1 has the unknown keys \['matched'\]. Known: claims",
        ),
        ('paper = "a"\nplace = "x"', "Claim 1 must have `says`"),
        ('paper = "b"\nplace = "x"\nsays = "y"\nwhy = "z"', "`paper` must be one of a, got 'b'"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, claim: str, error: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(f'[papers]\na = "A"\n[[claim]]\n{claim}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=error):
        read_paper_claims(path)


def test_scales_are_the_files_where_an_entry_names_none(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    claim = '[[claim]]\npaper = "a"\nplace = "x"\nsays = "y"\n'
    text = f'scales = ["large"]\n[papers]\na = "A"\n{claim}study = "s"\nclaims = ["m"]\n{claim}why = "no"\n'
    path.write_text(text + f'{claim}study = "s"\nclaims = ["m"]\nscales = ["small"]\n', encoding="utf-8")
    assert [entry.scales for entry in read_paper_claims(path)[1]] == [("large",), (), ("small",)]


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    _store(tmp_path, "small")
    claim = '[[claim]]\npaper = "a"\nplace = "x"\nsays = "y"\nstudy = "one"\nclaims = ["r/gd"]\n'
    entries = tmp_path / "claims.toml"
    entries.write_text(f'scales = ["small"]\n[papers]\na = "A"\n{claim}', encoding="utf-8")
    code = (
        "import runpy, sys; runpy.run_module('surefoot_papers.claims_page', run_name='__main__'); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), str(entries)], check=True)
    assert "| y | x | 0.5 ± 0.1 (n=4) | 4 | reproduced |" in (tmp_path / "CLAIMS.md").read_text(encoding="utf-8")
