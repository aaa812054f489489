import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
ROOT, PAPERS = SOURCE / "surefoot", SOURCE / "surefoot_papers"
RANKS = {
    **dict.fromkeys(["metrics", "curvature", "losses", "models", "data", "io"], 1),
    **dict.fromkeys(["optim", "posthoc", "theory", "ensembles"], 2),
    "training": 3,
    "runs": 4,
    **dict.fromkeys(["diagnosis", "watch"], 5),
    "studies": 6,
    "report": 7,
    **dict.fromkeys(["integrations", "cli"], 8),
}  # a module right below surefoot has rank 0
STUDY_RANKS = {  # inside studies: records, statistics, what reads and does studies
    **dict.fromkeys(["claim", "intervals", "figure"], 0),
    **dict.fromkeys(["outcome", "correlation", "difference", "paired", "archive", "engines", "cost", "study"], 1),
    **dict.fromkeys(["analysis", "plan"], 2),
    **dict.fromkeys(["comparison", "folder"], 3),
    **dict.fromkeys(["compare", "study_outcome", "reuse", "run"], 4),
}
PAPER_TITLES = ("too sharp, too sure", "calibration benefits of")


def imports(path: Path, package: str) -> set[str]:
    """The parts of a package that a file imports, by the name right below the package."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    depth = package.count(".") + 1
    return {name.split(".")[depth] for name in names if name.startswith(f"{package}.")}


def upward(folder: Path, package: str, ranks: dict[str, int]) -> list[str]:
    """Imports inside a package that do not point to a smaller rank; right below it, rank 0 is for files alone."""
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).with_suffix("").parts[0]
        own = ranks.get(place, 0)
        for target in imports(path, package) - {place}:
            if ranks.get(target, 0) >= own > 0 or ranks.get(target, 0) > own:
                wrong.append(f"{path.relative_to(folder)} imports {target}")
    return wrong


def test_imports_point_down() -> None:
    assert len(list(ROOT.rglob("*.py"))) > 300
    front = [line for line in upward(ROOT, "surefoot", RANKS) if not line.startswith(("__init__.py", "__main__.py"))]
    assert not front


def test_imports_point_down_inside_studies() -> None:
    files = {path.stem for path in (ROOT / "studies").glob("*.py")} - {"__init__"}
    assert files <= set(STUDY_RANKS), "give every file of studies its rank"
    assert not upward(ROOT / "studies", "surefoot.studies", STUDY_RANKS)


def test_every_folder_has_a_rank() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == set(RANKS)


def test_the_library_does_not_know_the_papers() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in (".py", ".json", ".html", ".js"):
            text = path.read_text().lower()
            wrong += [
                f"{path.relative_to(ROOT)}: {word}" for word in ("surefoot_papers", *PAPER_TITLES) if word in text
            ]
    assert not wrong


def test_the_library_names_no_study_of_the_papers() -> None:
    names = [re.search(r'^name = "(.+)"', path.read_text(), re.M)[1] for path in PAPERS.glob("*/*/study.toml")]  # type: ignore[index]
    assert len(names) > 15
    own = {
        "flatness",
        "methods",
        "shift",
        "mse",
        "decoupling",
        "certificates",
        "margin-aware",
    }  # words of the field too
    quoted = re.compile("|".join(rf'["\']{re.escape(name)}["\'/]' for name in names if name not in own))
    wrong = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if quoted.search(path.read_text())]
    assert not wrong


def test_papers_do_not_import_each_other() -> None:
    wrong = []
    for paper in (path.parent.name for path in PAPERS.glob("*/__init__.py")):
        others = {path.parent.name for path in PAPERS.glob("*/__init__.py")} - {paper}
        for path in (PAPERS / paper).rglob("*.py"):
            wrong += [f"{path.name} imports {name}" for name in imports(path, "surefoot_papers") & others]
    assert not wrong


@pytest.mark.parametrize(
    "modules",
    [
        "surefoot.report.study, surefoot.report.plots, surefoot.report.reliability",
        "surefoot.runs.folder, surefoot.studies.study_outcome, surefoot.studies.archive, surefoot.studies.compare",
        "surefoot_papers.claims_page, surefoot_papers.too_sharp.coupling, surefoot_papers.sam_calibration.methods",
        "surefoot.diagnosis.diagnosis",
    ],
)
def test_reading_and_reporting_never_import_torch(modules: str) -> None:
    subprocess.run([sys.executable, "-c", f"import sys, {modules}\nassert 'torch' not in sys.modules"], check=True)


def test_other_packages_are_imported_only_when_they_are_used() -> None:
    code = (
        "import sys, surefoot.integrations\n"
        "others = ('lightning', 'pytorch_lightning', 'transformers', 'accelerate', 'wandb', 'mlflow', 'tensorboard')\n"
        "assert not [name for name in others if name in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_surefoot_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import surefoot\n"
        "more = set(sys.modules) - before - {'surefoot', 'surefoot._version'}\n"
        "assert not {'torch', 'numpy'} & more and not [m for m in more if m.startswith('surefoot.')], more"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
