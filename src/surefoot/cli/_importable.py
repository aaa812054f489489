"""Whether modules can be imported, tried where it does no harm."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

_CHILD = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
with open(sys.argv[1], "a") as file:
    for name in sys.argv[2:]:
        try:
            importlib.import_module(name)
            error = ""
        except BaseException as caught:
            error = f"{type(caught).__name__}: {caught}"
        print(json.dumps([name, error]), file=file, flush=True)
"""


def import_errors(modules: Sequence[str], *, seconds: float = 600.0) -> dict[str, str]:
    """What goes wrong when each of the modules is imported, by name; nothing for those that import.

    All in one other process, so that what they print, warn or break stays there; a module that ends that process, or
    is not imported `seconds` after the first, is named with what happened, and the others go on in a new one.

    >>> import_errors(["json", "no_such_module"])
    {'no_such_module': "ModuleNotFoundError: No module named 'no_such_module'"}
    """
    errors: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        results.touch()
        while left := [name for name in dict.fromkeys(modules) if name not in errors]:
            # -P: a file in the current folder is not the package of the same name
            command = [sys.executable, "-P", "-c", _CHILD, str(results), *left]
            try:
                code = subprocess.run(command, capture_output=True, timeout=seconds, check=False).returncode
                end = f"the import ended the process with code {code}"
            except subprocess.TimeoutExpired:
                end = f"the import took more than {seconds:g} seconds"
            errors |= dict(json.loads(line) for line in results.read_text().splitlines())
            stopped = next((name for name in left if name not in errors), None)
            if stopped is not None:
                errors[stopped] = end
    return {name: error.splitlines()[0] for name, error in errors.items() if error}
