"""`surefoot doctor`: what this installation has, and what is broken."""

import importlib
import os
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from surefoot.cli._extras import extras
from surefoot.cli._terminal import print_json, print_table
from surefoot.table import Cell, Table


@dataclass
class DoctorCommand:
    """Say which versions, devices and extras this installation has, and what is missing or broken.

    Every installed package of every extra is imported, in another process, which takes a while where there are many.
    Exit code 1 if something is installed, or needed, and does not work.
    """

    json: bool = False
    """Print the findings as JSON."""

    def __call__(self) -> int:
        findings = [*_core(), *_torch(), *_extras(), _torchvision(), _data()]
        if self.json:
            print_json([dict(zip(("what", "state", "detail"), row, strict=True)) for row in findings])
        else:
            print_table(Table("doctor", "surefoot doctor", ("what", "state", "detail"), tuple(findings)))
        return 1 if any(row[1] == "broken" for row in findings) else 0


def _core() -> list[tuple[Cell, ...]]:
    from surefoot.runs.provenance import code_digest, commit, hardware, versions

    package_versions = versions()
    machine = hardware()
    return [
        ("surefoot", "ok", f"{package_versions['surefoot']}, code {code_digest()}, commit {commit() or 'unknown'}"),
        ("python", "ok", package_versions["python"]),
        ("machine", "ok", f"{machine['processor']}, {machine['cores']} cores, {machine['system']}"),
        *((name, *_installed(name, module)) for name, module in (("numpy", "numpy"), ("scikit-learn", "sklearn"))),
        *((name, *_installed(name, name)) for name in ("rich", "tyro", "safetensors")),
    ]


def _torch() -> list[tuple[Cell, ...]]:
    state, detail = _installed("torch", "torch")
    if state != "ok":
        return [("torch", "broken", detail)]
    import torch

    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    devices += ["mps"] if torch.backends.mps.is_available() else []
    gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()
    return [
        ("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        ("devices", "ok", ", ".join(devices)),
        ("process groups", "ok" if gloo else "absent", "gloo" if gloo else "torch has no gloo"),
        ("compiler", *(("ok", "g++") if shutil.which("g++") else ("absent", "torch.compile needs g++"))),
    ]


def _extras() -> list[tuple[Cell, ...]]:
    return [(f"extra {extra.name}", extra.state, extra.detail) for extra in extras()]


def _torchvision() -> tuple[Cell, ...]:
    try:
        number = version("torchvision")
    except PackageNotFoundError:
        return ("torchvision", "ok", "absent; surefoot does not need it")
    try:
        importlib.import_module("torchvision")
    except Exception as error:
        return ("torchvision", "broken", f"{number} does not import and breaks others: {error}; uninstall it")
    return ("torchvision", "ok", f"{number}; surefoot does not need it")


def _data() -> tuple[Cell, ...]:
    named = os.environ.get("SUREFOOT_DATA")
    if not named:
        return ("SUREFOOT_DATA", "absent", "not set; fetched data lie in the cache folder: surefoot data list")
    files = sorted(path.name for path in Path(named).glob("*.npz"))
    return ("SUREFOOT_DATA", "ok" if files else "absent", f"{named}: {', '.join(files) or 'holds no data'}")


def _installed(package: str, module: str) -> tuple[str, str]:
    """State and version of a package that surefoot needs."""
    try:
        number = version(package)
        importlib.import_module(module)
    except PackageNotFoundError:
        return "broken", "not installed"
    except Exception as error:
        return "broken", f"does not import: {error}"
    return "ok", number
