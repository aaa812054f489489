import csv
import io
import json

import pytest

from surefoot.table import Estimate, Table

TABLE = Table(
    "t", "A title", ("name", "r", "k"), (("a|b", Estimate.of([1.0, 2.0, 3.0]), 4), ("c", None, 0.12345)), ("Note.",)
)


def test_estimate() -> None:
    assert Estimate.of([1.0, 2.0, 3.0]) == Estimate(2.0, 1.0, 3)
    assert Estimate.of([5.0]) == Estimate(5.0, None, 1)
    assert Estimate.of([]) == Estimate(None, None, 0)


def test_markdown_escapes_pipes_and_keeps_notes() -> None:
    text = TABLE.markdown()
    assert "| a\\|b | 2.0 ± 1.0 (n=3) | 4 |" in text
    assert "| c | - | 0.123 |" in text
    assert text.endswith("- Note.\n")


def test_csv_spreads_an_estimate_over_three_columns() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [["name", "r", "r std", "r n", "k"], ["a|b", "2.0", "1.0", "3", "4"], ["c", "", "", "", "0.12345"]]


def test_latex_is_a_booktabs_table_with_its_signs_escaped() -> None:
    table = Table("t", "50 % of a_b", ("a & b", "r"), (("<x>", Estimate.of([1.0, 2.0, 3.0])),), ("~ ^ \\",))
    assert table.latex() == (
        "\\begin{table}\n  \\centering\n  \\caption{50 \\% of a\\_b}\n  \\label{tab:t}\n  \\begin{tabular}{ll}\n"
        "  \\toprule\n  a \\& b & r \\\\\n  \\midrule\n"
        "  \\textless{}x\\textgreater{} & 2.0 $\\pm$ 1.0 (n=3) \\\\\n  \\bottomrule\n  \\end{tabular}\n"
        "  \\par\\footnotesize \\textasciitilde{} \\textasciicircum{} \\textbackslash{}\n\\end{table}\n"
    )


def test_json_keeps_full_numbers() -> None:
    table = Table("t", "t", ("r", "k"), ((Estimate.of([1.0, 2.0, 3.0]), float("nan")), (None, 0.123456789)))
    held = json.loads(table.json())
    assert held["rows"] == [[{"mean": 2.0, "std": 1.0, "n": 3}, None], [None, 0.123456789]]
    assert held["columns"] == ["r", "k"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.45, 0.45], "0.45 ± 0 (n=2)"),
        ([0.3712, 0.3715], "0.37135 ± 0.00021 (n=2)"),
        ([10.0, 14.0], "12.0 ± 2.8 (n=2)"),
        ([1e5, 3e5], "200000 ± 140000 (n=2)"),
        ([float("nan"), 1.0], "nan ± nan (n=2)"),
    ],
)
def test_estimates_are_rounded_by_their_deviation(values: list[float], text: str) -> None:
    assert str(Estimate.of(values)) == text


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="3 cells each, got 1"):
        Table("t", "A title", ("a", "b", "c"), (("x",),))


def test_pipes_in_names_do_not_split_columns() -> None:
    table = Table("t", "t", ("||g||", "b"), (("a|b", 1),))
    header, _, row = table.markdown().splitlines()[2:5]
    assert header == r"| \|\|g\|\| | b |"
    assert row == r"| a\|b | 1 |"
