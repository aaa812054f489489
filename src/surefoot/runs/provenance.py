"""Where numbers come from: code, versions, hardware."""

import ast
import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from surefoot._version import __version__

_PACKAGE = Path(__file__).parents[1]


@cache
def code_digest() -> str:
    """Twelve hexadecimal digits of the hash of the source that a run imports, directly or not."""
    digest = hashlib.sha256()
    for path in sorted(_imported_by(_PACKAGE / "runs" / "run.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _imported_by(start: Path) -> set[Path]:
    """The file and all files of this package that it imports, followed through their import statements."""
    files: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        files.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    top, *parts = name.split(".")
                    module = _PACKAGE.joinpath(*parts)
                    candidates = (module.with_suffix(".py"), module / "__init__.py")
                    waiting += [candidate for candidate in candidates if top == "surefoot" and candidate.is_file()]
    return files


@cache
def commit() -> str | None:
    """The git commit of the source, with `+` where the work tree differs from it; None outside a checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_PACKAGE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if not (_PACKAGE.parents[1] / ".git").exists():
            return None  # installed inside somebody else's repository
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def versions() -> dict[str, str]:
    """Versions of surefoot, Python and the packages that make the numbers."""
    numbers = {"surefoot": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scikit-learn"):
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:
            numbers[package] = "absent"
    return numbers


def same_provenance(record: Mapping[str, Any]) -> bool:
    """Whether a run's record names this code and these versions."""
    return record.get("code") == code_digest() and record.get("versions") == versions()


@cache
def hardware() -> dict[str, Any]:
    """Processor, number of cores, operating system."""
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.system()}
