"""Doctests of docstrings as code blocks, which Markdown would take for quotations."""

from typing import Any

import griffe


def fenced(text: str) -> str:
    """A docstring as Markdown: each run of doctest lines becomes a fenced block."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        begins, ends = line.startswith(">>>") and not inside, not line.strip() and inside
        if begins or ends:
            lines += ["```", ""] if ends else ["", "```pycon"]
            inside = begins
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


class Fenced(griffe.Extension):
    """Fences the doctests that the API pages show."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
