"""A table of numbers that carry what proves them, and its shapes: text, Markdown, CSV, plain records."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean over n values with their sample standard deviation, which one value does not have.

    >>> str(Estimate.of([0.5, 0.7])), str(Estimate.of([0.5])), str(Estimate.of([]))
    ('0.60 ± 0.14 (n=2)', '0.50 (n=1)', '-')
    """

    mean: float | None
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Estimate":
        """Mean, deviation and number of some values."""
        found = list(values)
        if not found:
            return cls(None, None, 0)
        mean = sum(found) / len(found)
        if len(found) == 1:
            return cls(mean, None, 1)
        return cls(mean, (sum((value - mean) ** 2 for value in found) / (len(found) - 1)) ** 0.5, len(found))

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.mean:.2f}{spread} (n={self.n})"


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

    def markdown(self) -> str:
        """The table as GitHub-flavoured Markdown, with its title and notes."""
        lines = [f"**{self.title}**", "", _pipes(self.columns), _pipes("---" for _ in self.columns)]
        lines += [_pipes(row) for row in self.text_rows()]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

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


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
