"""A table of numbers that carry what proves them, and its shapes: text, Markdown, LaTeX, CSV, JSON."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Estimate:
    """A mean over n values with their sample standard deviation, which one value does not have.

    Shown to the digits that the deviation leaves a meaning: two of its own where they begin with 1 to 3.4, else one.

    >>> str(Estimate.of([0.5, 0.7])), str(Estimate.of([0.5])), str(Estimate.of([]))
    ('0.60 ± 0.14 (n=2)', '0.5 (n=1)', '-')
    >>> str(Estimate.of([0.4501, 0.4512, 0.4516])), str(Estimate.of([1234.0, 1300.0]))
    ('0.4510 ± 0.0008 (n=3)', '1270 ± 50 (n=2)')
    """

    mean: float | None
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Estimate":
        """Mean, deviation and number of some values."""
        numbers = list(values)
        if not numbers:
            return cls(None, None, 0)
        mean = sum(numbers) / len(numbers)
        if len(numbers) == 1:
            return cls(mean, None, 1)
        return cls(mean, (sum((value - mean) ** 2 for value in numbers) / (len(numbers) - 1)) ** 0.5, len(numbers))

    @classmethod
    def of_measured(cls, values: Iterable[float]) -> "Estimate":
        """The same of those values that are numbers: NaN is a value that was not measured."""
        return cls.of(value for value in values if not math.isnan(value))

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        if self.std is None or self.std == 0 or not math.isfinite(self.std):
            spread = "" if self.std is None else f" ± {self.std:.2g}"
            return f"{self.mean:.3g}{spread} (n={self.n})"
        decimals = sensible_decimals(self.std)
        parts = (f"{round(value, decimals):.{max(0, decimals)}f}" for value in (self.mean, self.std))
        return f"{' ± '.join(parts)} (n={self.n})"


def sensible_decimals(deviation: float) -> int:
    """To how many decimals an uncertain number is worth giving; negative where not even its units are.

    >>> [sensible_decimals(x) for x in (0.14, 0.08, 0.00123, 47.0, 1.4)]
    [2, 2, 4, -1, 1]
    """
    exponent = math.floor(math.log10(deviation))
    leading = deviation / 10**exponent
    return -exponent + (1 if leading < 3.55 else 0)


Cell = str | int | float | Estimate | None


@dataclass(frozen=True)
class Table:
    """Named columns and rows of cells, with notes that belong under them; `name` is for files."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"`rows` must have {len(self.columns)} cells each, got {len(row)} in {row}.")

    def text_rows(self) -> list[list[str]]:
        """Every cell as people read it."""
        return [[_text(cell) for cell in row] for row in self.rows]

    def text(self) -> str:
        """The table as plain text in aligned columns, with its title and notes.

        >>> print(Table("t", "Metrics", ("metric", "value"), (("ece", 0.05), ("accuracy", 0.9)), ("n = 10",)).text())
        Metrics
        metric    value
        ece       0.05
        accuracy  0.9
        n = 10
        """
        lines = [list(self.columns), *self.text_rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = ["  ".join(f"{cell:<{k}}" for cell, k in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([self.title, *aligned, *self.notes])

    def markdown(self) -> str:
        """The table as GitHub-flavoured Markdown, with its title and notes."""
        lines = [f"**{self.title}**", "", _pipes(self.columns), _pipes("---" for _ in self.columns)]
        lines += [_pipes(row) for row in self.text_rows()]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def latex(self) -> str:
        """The table as LaTeX with the rules of the package booktabs."""
        head = " & ".join(map(_tex, self.columns))
        body = "".join("  " + " & ".join(map(_tex, row)) + " \\\\\n" for row in self.text_rows())
        notes = "".join(f"  \\par\\footnotesize {_tex(note)}\n" for note in self.notes)
        return (
            f"\\begin{{table}}\n  \\centering\n  \\caption{{{_tex(self.title)}}}\n  \\label{{tab:{self.name}}}\n"
            f"  \\begin{{tabular}}{{{'l' * len(self.columns)}}}\n  \\toprule\n  {head} \\\\\n  \\midrule\n{body}"
            f"  \\bottomrule\n  \\end{{tabular}}\n{notes}\\end{{table}}\n"
        )

    def json(self) -> str:
        """The table as JSON: full numbers, an estimate as mean, std and n; what is not finite is null."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def to_dict(self) -> dict[str, object]:
        """What `json` writes."""
        rows = [[_plain(cell) for cell in row] for row in self.rows]
        return {"name": self.name, "title": self.title, "columns": self.columns, "rows": rows, "notes": self.notes}

    def csv(self) -> str:
        """The table as CSV, an estimate spread over three columns: value, `std` and `n`."""
        wide = [any(isinstance(row[k], Estimate) for row in self.rows) for k in range(len(self.columns))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        header: list[str] = []
        for name, spread in zip(self.columns, wide, strict=True):
            header += [name, f"{name} std", f"{name} n"] if spread else [name]
        writer.writerow(header)
        for row in self.rows:
            line: list[object] = []
            for cell, spread in zip(row, wide, strict=True):
                if isinstance(cell, Estimate):
                    line += [cell.mean, cell.std, cell.n]
                else:
                    line += [cell, None, None] if spread else [cell]
            writer.writerow(line)
        return out.getvalue()


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_TEX = {
    "\\": r"\textbackslash{}",
    **{char: "\\" + char for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "²": r"$^2$",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(char, char) for char in text)


def _plain(cell: Cell) -> object:
    if isinstance(cell, Estimate):
        return {name: _plain(value) for name, value in vars(cell).items()}
    return finite_or_none(cell)


def finite_or_none(value: _Value) -> _Value | None:
    """The value, or None where it is a number that JSON cannot hold.

    >>> finite_or_none(0.5), finite_or_none(math.nan), finite_or_none(-math.inf), finite_or_none("text")
    (0.5, None, None, 'text')
    """
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_ready(part: Any) -> Any:
    """Nested mappings and sequences as JSON can hold them: dicts and lists, None for numbers that are not finite."""
    if isinstance(part, Mapping):
        return {str(key): json_ready(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [json_ready(value) for value in part]
    return finite_or_none(part)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
