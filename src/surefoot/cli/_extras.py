"""The extras of this installation: which of their packages are there, missing or broken."""

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version

from surefoot.cli._importable import import_errors


@dataclass(frozen=True)
class Extra:
    """An extra by name, with the state of each of its packages."""

    name: str
    installed: dict[str, str]  # versions by package
    missing: tuple[str, ...]
    broken: dict[str, str]  # version and error by package, of those that are installed and do not import

    @property
    def state(self) -> str:
        """Broken if any package is, absent if any is missing, else ok."""
        return "broken" if self.broken else "absent" if self.missing else "ok"

    @property
    def detail(self) -> str:
        """All packages in one line."""
        parts = [f"{package} does not import: {why}" for package, why in self.broken.items()]
        if self.missing:
            parts.append(f"pip install 'surefoot[{self.name}]' adds {', '.join(self.missing)}")
        if self.installed:
            parts.append("has " + ", ".join(f"{package} {number}" for package, number in self.installed.items()))
        return "; ".join(parts)


def extras() -> list[Extra]:
    """Every extra in the package's own metadata, every installed package of theirs tried by importing it."""
    wanted = wanted_packages(requires("surefoot") or [])
    versions = {package: _version(package) for packages in wanted.values() for package in packages}
    modules = _modules([package for package, number in versions.items() if number is not None])
    errors = import_errors(list(modules.values()))
    described = []
    for name, packages in wanted.items():
        broken = {p: f"{versions[p]}, {errors[modules[p]]}" for p in packages if modules.get(p) in errors}
        installed = {p: versions[p] or "" for p in packages if versions[p] is not None and p not in broken}
        missing = tuple(p for p in packages if versions[p] is None)
        described.append(Extra(name, installed, missing, broken))
    return described


def wanted_packages(requirements: list[str]) -> dict[str, list[str]]:
    """The packages of each extra, from lines of metadata; extras of extras stand for themselves.

    >>> wanted_packages(["torch>=2.6", "ray>=2.60; extra == 'ray'", "surefoot[ray]; extra == 'dev'"])
    {'ray': ['ray']}
    """
    packages: dict[str, list[str]] = {}
    for line in requirements:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"](.+?)['\"]", marker)
        package = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
        if extra and package and package[0] != "surefoot":
            packages.setdefault(extra[1], []).append(package[0])
    return packages


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _modules(packages: list[str]) -> dict[str, str]:
    """The module by which each package is imported: the one of its name, else the first; packages may have none."""
    provided: dict[str, list[str]] = {}
    for module, owners in packages_distributions().items():
        for owner in owners:
            if module.isidentifier() and not module.startswith("_"):
                provided.setdefault(_normal(owner), []).append(module)
    modules = {}
    for package in packages:
        choices = sorted(provided.get(_normal(package), []))
        if choices:
            same = [module for module in choices if _normal(module) == _normal(package)]
            modules[package] = (same or choices)[0]
    return modules


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
