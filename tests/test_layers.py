import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "surefoot"
RANKS = {
    **dict.fromkeys(["metrics", "curvature", "losses", "models", "data"], 1),
    **dict.fromkeys(["optim", "posthoc", "theory", "ensembles"], 2),
    "training": 3,
    "runs": 4,
    **dict.fromkeys(["studies", "report", "integrations"], 5),
    "cli": 6,
}  # a module right below surefoot has rank 0


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("surefoot.")}


def test_imports_point_down() -> None:
    files = sorted(ROOT.rglob("*.py"))
    assert len(files) > 30
    wrong = []
    for path in files:
        place = path.relative_to(ROOT).with_suffix("").parts[0]
        for target in imports(path) - {place, "__version__"}:
            if RANKS.get(target, 0) >= RANKS.get(place, 0) > 0 or (RANKS.get(target, 0) > RANKS.get(place, 0)):
                wrong.append(f"{path.relative_to(ROOT)} imports {target}")
    assert not wrong


def test_every_folder_has_a_rank() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders
    assert folders <= set(RANKS)


def test_reading_and_reporting_never_import_torch() -> None:
    code = (
        "import sys, surefoot.report.study, surefoot.report.plots, surefoot.report.reliability\n"
        "import surefoot.runs.folder, surefoot.studies.outcome\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_packages_are_imported_only_when_they_are_used() -> None:
    code = (
        "import sys, surefoot\n"
        "assert not any(name.startswith('surefoot.') for name in sys.modules)\n"
        "import surefoot.integrations\n"
        "others = ('lightning', 'pytorch_lightning', 'transformers', 'accelerate', 'wandb', 'mlflow', 'tensorboard')\n"
        "assert not [name for name in others if name in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_surefoot_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import surefoot\n"
        "more = set(sys.modules) - before - {'surefoot'}\n"
        "assert not {'torch', 'numpy'} & more and not [m for m in more if m.startswith('surefoot.integrations')], more"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
