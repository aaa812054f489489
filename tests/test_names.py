"""The names of the code: field vocabulary, one class per name, files that hold what they are called."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
VAGUE = {"told", "said", "held", "found", "known"}  # say what was told, found or known
LONGEST = 60  # lines of a function without its docstring: a screen
LONGER: set[str] = set()  # functions that are better in one piece, with the reason beside each


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in FILES:
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def num_lines(function: ast.FunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = function.body[0]
    docstring = ast.get_docstring(function, clean=False) is not None
    return (function.end_lineno or 0) - function.lineno + 1 - docstring * ((first.end_lineno or 0) - first.lineno + 1)


def test_names_say_what_a_thing_is() -> None:
    vague = [
        f"{path}:{line} {name}" for path, tree in trees() for line, name in names(tree) if name.strip("_") in VAGUE
    ]
    assert not vague, "\n".join(vague)


def test_a_class_name_stands_once() -> None:
    counts = Counter(node.name for _, tree in trees() for node in tree.body if isinstance(node, ast.ClassDef))
    assert not [name for name, count in counts.items() if count > 1]


def test_no_module_is_shadowed_by_what_its_package_exports() -> None:
    shadowed = []
    for path in (path for path in FILES if path.name == "__init__.py"):
        modules = {other.stem for other in path.parent.glob("*.py")} | {
            other.parent.name for other in path.parent.glob("*/__init__.py")
        }
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                exported = {alias.asname or alias.name for alias in node.names}
                package = ".".join(path.parent.relative_to(SOURCE).parts)
                shadowed += [f"{package}.{name}" for name in exported & modules if node.module != package]
    assert not shadowed


def test_functions_fit_on_a_screen() -> None:
    longer = {
        f"{path}:{node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and num_lines(node) > LONGEST
    }
    assert longer == LONGER


def test_a_missing_number_is_never_zero() -> None:
    wrong = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)
        for value in node.values
        if isinstance(value, ast.Constant) and type(value.value) in (int, float) and value.value == 0
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("word", ["utils", "helpers", "common", "base", "misc", "core", "manager", "handler"])
def test_no_file_is_called_anything(word: str) -> None:
    assert not [path for path in FILES if path.stem.strip("_") == word]
