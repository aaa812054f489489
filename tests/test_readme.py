"""What the README and the examples say can be typed."""

import re
from pathlib import Path

from surefoot.cli import main
from surefoot.runs.spec import RunSpec
from surefoot.runs.toml import read_toml

ROOT = Path(__file__).parents[1]


def test_the_readmes_commands_exist() -> None:
    verbs = set(re.findall(r"^surefoot (\w+) .*#", (ROOT / "README.md").read_text(), flags=re.MULTILINE))
    assert verbs == {
        "evaluate",
        "calibrate",
        "apply",
        "train",
        "sharpness",
        "certify",
        "study",
        "compare",
        "diagnose",
        "watch",
        "report",
        "list",
        "doctor",
    }


def test_the_example_spec_names_every_key() -> None:
    tree = read_toml(ROOT / "examples" / "train.toml")
    spec = RunSpec.from_dict(tree)
    assert set(tree) == set(spec.to_dict())
    short = {"budget": tree["budget"], "optimizer": tree["optimizer"]}
    assert {**RunSpec.from_dict(short).to_dict(), "data": 0, "model": 0, "observers": 0} == {
        **spec.to_dict(),
        "data": 0,
        "model": 0,
        "observers": 0,
    }


def test_the_example_runs(tmp_path: Path) -> None:
    arguments = ["train", str(ROOT / "examples" / "train.toml"), "--set", "budget=2", "--out", str(tmp_path)]
    assert main(arguments) == 0
