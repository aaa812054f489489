"""How long the page of a study of 200 runs takes to make, what it weighs, and when a browser can use it.

The runs are copies of the archived runs of results/coupling/digits under other seeds.

Usage: python benchmarks/report.py [--out results/benchmarks/report.md]
"""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from _record import benchmark_parser, provenance, write_tables

from surefoot.report.page import chart_scripts
from surefoot.report.study import write_page
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.studies.archive import read_archive
from surefoot.studies.folder import StudyFolder
from surefoot.studies.study_outcome import study_outcome
from surefoot.table import Table

RESULTS = Path(__file__).parents[1] / "results" / "coupling" / "digits"
NUM_RUNS = 200
BARS = {"seconds to make": 20.0, "megabytes": 8.0, "seconds until usable": 3.0, "seconds until all is drawn": None}


def write_study(root: Path) -> None:
    sources = read_archive(RESULTS)
    labels = {}
    for number in range(NUM_RUNS):
        source = sources[number % len(sources)]
        spec = RunSpec.from_dict({**source.spec.to_dict(), "seed": number // len(sources)})
        folder = RunFolder(root / "runs" / spec.id)
        folder.path.mkdir(parents=True)
        folder.write_record({**source.record, "id": spec.id, "label": spec.label, "spec": spec.to_dict()})
        folder.metrics.write_bytes(source.content()[0])
        labels[spec.id] = spec.label
    record = json.loads((RESULTS / "study.json").read_text())
    (root / "study.json").write_text(json.dumps({**record, "runs": labels}))


def seconds_in_browser(page: Path) -> tuple[float | None, float | None]:
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None, None
    if chromium is None:
        return None, None
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        seconds = []
        for _ in range(3):
            view = browser.new_page()
            start = time.perf_counter()
            view.goto(page.as_uri())
            view.wait_for_function("document.documentElement.dataset.usable === 'yes'", timeout=120_000)
            usable = time.perf_counter() - start
            view.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=120_000)
            seconds.append((usable, time.perf_counter() - start))
            view.close()
        browser.close()
    return sorted(seconds)[1]


def main() -> None:
    parser = benchmark_parser(__file__)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_study(root)
        start, busy = time.perf_counter(), time.process_time()
        study = StudyFolder(root)
        page = write_page(root, study_outcome(study), study.trajectories)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        usable, drawn = seconds_in_browser(page)
        weight = page.stat().st_size / 1e6
    measured = dict(zip(BARS, (seconds, weight, usable, drawn), strict=True))
    rows = tuple((name, measured[name], bar) for name, bar in BARS.items())
    scripts = f"{len(chart_scripts()) / 1e6:.2f} MB of the page are its scripts. Made in {busy:.1f} s of CPU time. "
    scripts += f"Chromium: median of 3; usable: the controls and the first two charts answer. {NUM_RUNS} runs."
    made = provenance("python benchmarks/report.py", one_thread=False)
    notes = (scripts, f"Load before: {load:.1f}.", made)
    table = Table("report", f"The page of {NUM_RUNS} runs", ("what", "measured (n = 1)", "bar"), rows, notes)
    write_tables(arguments.out, table)


if __name__ == "__main__":
    main()
