"""The page of claims: the committed one, and made-up folders."""

import subprocess
import sys
from pathlib import Path

import pytest

from surefoot_papers.answers import Entry, Row, Verdict, answers, read_entries, verdict_of
from surefoot_papers.claims_page import render

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def test_the_committed_page_is_what_the_command_writes() -> None:
    page = render(*read_entries(ROOT / "src" / "surefoot_papers" / "claims.toml"), RESULTS)
    assert (RESULTS / "CLAIMS.md").read_text(encoding="utf-8") == page, "make claims"


def test_every_committed_entry_is_answered_or_says_why_not() -> None:
    _, entries = read_entries(ROOT / "src" / "surefoot_papers" / "claims.toml")
    for entry in entries:
        if entry.study:
            assert (ROOT / "studies" / f"{entry.study}.toml").is_file(), entry
        if (RESULTS / entry.study).is_dir() and entry.study:
            assert answers(entry, RESULTS), entry


def test_every_claim_that_a_committed_study_judges_is_on_the_page() -> None:
    _, entries = read_entries(ROOT / "src" / "surefoot_papers" / "claims.toml")
    told = {
        (folder, row.about)
        for entry in entries
        if not entry.column
        for folder, rows in answers(entry, RESULTS).items()
        for row in rows
    }
    judged = {
        (folder, row.about)
        for path in RESULTS.glob("*/*/claims.csv")
        for folder, rows in answers(_entry(study=path.parts[-3], scales=(path.parts[-2],), match="."), RESULTS).items()
        for row in rows
    }
    assert sorted(judged - told) == [], "results/claims.toml lacks an entry for these"


def _entry(**changed: object) -> Entry:
    given = {"paper": "a", "place": "Table 1", "says": "it is so", "study": "one", "scales": ("large", "small")}
    return Entry(**{**given, "match": "under gd", **changed})  # type: ignore[arg-type]


def _store(results: Path, scale: str, text: str, *, study: str = "one", table: str = "claims") -> None:
    folder = results / study / scale
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{table}.csv").write_text(text, encoding="utf-8")


CLAIMS = """\
claim,measured,verdict
r > 0 under gd,0.5 ± 0.1 (n=4),holds
r > 0 under sgd,0.1 ± 0.5 (n=3),cannot tell at this scale: too few
r > 0 under sam,in 1 of 7 runs,does not hold
"""
DIFFERENCES = """\
method,ECE %,accuracy %
sam rho=0.1,"-1.0 [-2.0, -0.5] (n=3)","+0.5 [-0.1, +1.1] (n=3)"
csam,"+1.0 [+0.5, +1.5] (n=3)",
"""


def test_a_row_is_found_by_its_text_and_read(tmp_path: Path) -> None:
    _store(tmp_path, "small", CLAIMS)
    assert answers(_entry(), tmp_path) == {"one/small": [Row("r > 0 under gd", "0.5 ± 0.1 (n=4)", "holds")]}
    verdicts = [row.verdict for row in answers(_entry(match="under"), tmp_path)["one/small"]]
    assert verdicts == ["holds", "cannot tell", "does not hold"]
    flipped = [row.verdict for row in answers(_entry(match="under", opposite=True), tmp_path)["one/small"]]
    assert flipped == ["does not hold", "cannot tell", "holds"]


def test_the_best_scale_that_has_the_row_comes_first(tmp_path: Path) -> None:
    _store(tmp_path, "small", CLAIMS)
    _store(tmp_path, "large", "claim,measured,verdict\nr > 0 under gd,0.9 (n=1),does not hold\n")
    assert list(answers(_entry(), tmp_path)) == ["one/large", "one/small"]
    assert list(answers(_entry(match="under sam"), tmp_path)) == ["one/small"]
    page = render({"a": "A"}, [_entry()], tmp_path)
    assert "| [one/large](one/large), claims.csv; one/small: holds |" in page
    assert "of 1 claims 0 hold, 1 do not hold, 0 cannot be told, and 0 are not measured." in page


def test_a_scale_that_still_lacks_runs_comes_last(tmp_path: Path) -> None:
    _store(tmp_path, "large", CLAIMS)
    _store(tmp_path, "small", CLAIMS)
    (tmp_path / "one" / "large" / "study.json").write_text('{"runs": {"a": "gd", "b": "sgd"}}')
    (tmp_path / "one" / "large" / "runs" / "a").mkdir(parents=True)
    assert list(answers(_entry(), tmp_path)) == ["one/small", "one/large"]
    (tmp_path / "one" / "large" / "runs" / "b").mkdir()
    assert list(answers(_entry(), tmp_path)) == ["one/large", "one/small"]


def test_a_network_beside_the_claim_can_be_matched_too(tmp_path: Path) -> None:
    _store(
        tmp_path, "small", "network,claim,measured,verdict\ncnn,it is so,1 (n=2),holds\nmlp,it is so,2 (n=2),holds\n"
    )
    assert [row.measured for row in answers(_entry(match="^it .*mlp"), tmp_path)["one/small"]] == ["2 (n=2)"]
    assert "| cnn: 1 (n=2)<br>mlp: 2 (n=2) | 2 | holds (2 rows) |" in render(
        {"a": "A"}, [_entry(match="^it is so")], tmp_path
    )


@pytest.mark.parametrize(
    ("match", "column", "sign", "verdict"),
    [
        ("^sam", "ECE %", "below", "holds"),
        ("^sam", "ECE %", "above", "does not hold"),
        ("^csam", "ECE %", "below", "does not hold"),
        ("^csam", "ECE %", "above", "holds"),
        ("^sam", "accuracy %", "above", "cannot tell"),
        ("^csam", "accuracy %", "above", "cannot tell"),
    ],
)
def test_differences_are_judged_by_their_intervals(
    tmp_path: Path, match: str, column: str, sign: str, verdict: Verdict
) -> None:
    _store(tmp_path, "small", DIFFERENCES, table="differences")
    (row,) = answers(_entry(match=match, column=column, sign=sign), tmp_path)["one/small"]
    assert row.verdict == verdict


@pytest.mark.parametrize(
    ("said", "every", "some"),
    [
        ([], "not measured", "not measured"),
        (["holds", "holds"], "holds", "holds"),
        (["holds", "cannot tell"], "cannot tell", "holds"),
        (["holds", "cannot tell", "does not hold"], "does not hold", "holds"),
        (["cannot tell", "does not hold"], "does not hold", "cannot tell"),
        (["does not hold"], "does not hold", "does not hold"),
    ],
)
def test_a_claim_is_about_all_its_rows_or_about_some(said: list[Verdict], every: Verdict, some: Verdict) -> None:
    rows = [Row("", "", verdict) for verdict in said]
    assert (verdict_of(rows), verdict_of(rows, some=True)) == (every, some)


def test_the_page(tmp_path: Path) -> None:
    _store(tmp_path, "small", CLAIMS + "r > 0 under csam,-,holds\n")
    entries = [
        _entry(number=".9", why="not shown: it holds"),
        _entry(match="under s"),
        _entry(match="under"),
        _entry(study="", scales=(), match="", why="would need more"),
        _entry(study="two"),
        _entry(paper="b", match="under sam", place="B"),
    ]
    page = render({"a": "Paper A", "b": "Ours"}, entries, tmp_path)
    look = "[one/small](one/small), claims.csv |"
    assert f"| it is so | Table 1 | .9 | 0.5 ± 0.1 (n=4) | 4 | holds | - | {look}" in page
    both = "sgd: 0.1 ± 0.5 (n=3)<br>sam: in 1 of 7 runs | 3, 7 runs"
    assert f"| - | {both} | does not hold (does not hold 1, cannot tell 1) | not known | {look}" in page
    assert "| - | 4 rows | 4, 3, 7 runs | does not hold (holds 2, does not hold 1, cannot tell 1) | not known |" in page
    assert "| it is so | Table 1 | - | - | - | not measured | would need more | - |" in page
    assert "| not measured | results/two is not recorded yet | - |" in page
    assert "- Paper A: of 5 claims 1 hold, 2 do not hold, 0 cannot be told, and 2 are not measured." in page
    assert "**Ours**\n\n| claim | where | here | n | verdict | why | look at |" in page  # no paper, no number
    assert page == render({"a": "Paper A", "b": "Ours"}, entries, tmp_path)


def test_several_measured_columns_are_named(tmp_path: Path) -> None:
    _store(
        tmp_path, "small", "claim,equal,log,verdict\nunder gd,0.5 (n=4),0.1 (n=4),holds\nunder gd too,-,1 (n=1),holds\n"
    )
    rows = answers(_entry(), tmp_path)["one/small"]
    assert [row.measured for row in rows] == ["equal: 0.5 (n=4); log: 0.1 (n=4)", "log: 1 (n=1)"]


def test_an_entry_that_finds_nothing_is_named(tmp_path: Path) -> None:
    _store(tmp_path, "small", CLAIMS)
    with pytest.raises(
        ValueError, match=r"Table 1, 'it is so': `match` must find a row in one of one/large, one/small"
    ):
        answers(_entry(match="under muon"), tmp_path)
    with pytest.raises(ValueError, match=r"`match` must find a row in one of one/large"):
        answers(_entry(scales=("large",)), tmp_path)
    _store(tmp_path, "small", DIFFERENCES, table="differences")
    with pytest.raises(ValueError, match=r"`column` must be one of ECE %, accuracy %, got 'NLL'"):
        answers(_entry(match="sam", column="NLL", sign="below"), tmp_path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"match": ""}, "must be given together"),
        ({"study": ""}, "must be given together"),
        ({"study": "", "scales": (), "match": ""}, "`why` must say what would be needed"),
        ({"match": "("}, "`match` must be a regular expression, got '\\('"),
        ({"column": "ECE %"}, "`sign` must be below or above"),
        ({"sign": "below"}, "`sign` must be below or above"),
        ({"column": "ECE %", "sign": "under"}, "`sign` must be below or above .* got 'under'"),
    ],
)
def test_a_wrong_entry_is_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=f"^Table 1, 'it is so': .*{said}"):
        _entry(**changed)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            'paper = "a"\nplace = "x"\nsays = "y"\nmatched = "z"',
            r"Claim 1 has the unknown keys \['matched'\]. Known: column",
        ),
        ('paper = "a"\nplace = "x"', "Claim 1 must have `says`"),
        ('paper = "b"\nplace = "x"\nsays = "y"\nwhy = "z"', "`paper` must be one of a, got 'b'"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, claim: str, said: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(f'[papers]\na = "A"\n[[claim]]\n{claim}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        read_entries(path)


def test_scales_are_the_files_where_an_entry_names_none(tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    claim = '[[claim]]\npaper = "a"\nplace = "x"\nsays = "y"\n'
    text = f'scales = ["large"]\n[papers]\na = "A"\n{claim}study = "s"\nmatch = "m"\n{claim}why = "no"\n'
    path.write_text(text + f'{claim}study = "s"\nmatch = "m"\nscales = ["small"]\n', encoding="utf-8")
    assert [entry.scales for entry in read_entries(path)[1]] == [("large",), (), ("small",)]


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    _store(tmp_path, "small", CLAIMS)
    claim = '[[claim]]\npaper = "a"\nplace = "x"\nsays = "y"\nstudy = "one"\nmatch = "under gd"\n'
    (tmp_path / "claims.toml").write_text(f'scales = ["small"]\n[papers]\na = "A"\n{claim}', encoding="utf-8")
    code = (
        "import runpy, sys; runpy.run_module('surefoot_papers.claims_page', run_name='__main__'); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert "| y | x | 0.5 ± 0.1 (n=4) | 4 | holds |" in (tmp_path / "CLAIMS.md").read_text(encoding="utf-8")
