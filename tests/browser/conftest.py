"""A real browser, Debian's Chromium, and the pages that it looks at."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def _missing(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"the browser tests need {what}, and CI must not do without them")
    pytest.skip(f"no {what}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; where there is none the test is skipped, but fails in CI."""
    if CHROMIUM is None:
        _missing("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small study, really run: two optimizers, two learning rates, observed with `reliability`."""
    from surefoot.report.study import write_page
    from surefoot.runs.folder import RunFolder
    from surefoot.runs.run import run
    from surefoot.runs.spec import RunSpec
    from surefoot.studies.folder import StudyFolder
    from surefoot.studies.study_outcome import study_outcome

    root = tmp_path_factory.mktemp("study")
    tree = {
        "budget": 60,
        "data": {"name": "digits", "num_train": 200, "noisy_labels": 0.3},
        "model": {"name": "mlp", "widths": [16]},
        "schedule": {"every": 10, "per_decade": 0},
        "observers": {"reliability": {}},
    }
    specs = [
        RunSpec.from_dict({**tree, "optimizer": {"name": name, "lr": lr}})
        for name, rates in (("gd", (0.5, 1.0)), ("adamw", (0.01, 0.03)))
        for lr in rates
    ]
    for spec in specs:
        run(spec, RunFolder(root / "runs" / spec.id))
    record = {"study": "small", "scale": "digits", "title": "Why <b>?", "about": "Small.", "outcome": "coupling"}
    (root / "study.json").write_text(json.dumps({**record, "runs": {spec.id: spec.label for spec in specs}}))
    folder = StudyFolder(root)
    write_page(root, study_outcome(folder), folder.trajectories)
    return root


class Visit:
    """A page in the browser, with everything that it said and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.append(request.url))

    def go(self, path: Path) -> "Visit":
        """Open a file and wait until it can be used."""
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=60_000)
        return self


@pytest.fixture
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A new page, of the options in the test's parameter where there is one."""
    page = browser.new_page(**{"viewport": {"width": 1200, "height": 900}, **getattr(request, "param", {})})
    page.set_default_timeout(120_000)  # a busy machine
    yield Visit(page)
    page.close()
