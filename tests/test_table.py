import csv
import io

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
    assert "| a\\|b | 2.00 ± 1.00 (n=3) | 4 |" in text
    assert "| c | - | 0.123 |" in text
    assert text.endswith("- Note.\n")


def test_csv_spreads_an_estimate_over_three_columns() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [["name", "r", "r std", "r n", "k"], ["a|b", "2.0", "1.0", "3", "4"], ["c", "", "", "", "0.12345"]]


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="3 cells each, got 1"):
        Table("t", "A title", ("a", "b", "c"), (("x",),))


def test_pipes_in_names_do_not_split_columns() -> None:
    table = Table("t", "t", ("||g||", "b"), (("a|b", 1),))
    header, _, row = table.markdown().splitlines()[2:5]
    assert header == r"| \|\|g\|\| | b |"
    assert row == r"| a\|b | 1 |"
