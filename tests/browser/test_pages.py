"""The pages in a real browser."""

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vl_convert")

from browser.conftest import Visit
from surefoot.cli import main
from surefoot.cli.watch import live_page, version
from surefoot.proportion import wilson
from surefoot.report.serve import Live, server
from surefoot.runs.folder import RunFolder

PHONE = {"viewport": {"width": 390, "height": 844}}
POINT = """([name, run, row]) => {
  const view = window.surefoot.views.get(name);
  const item = window.surefoot.page.runs[run];
  const chart = JSON.parse(document.getElementById("charts").textContent)[name];
  const box = document.querySelector(`#chart-${name} canvas`).getBoundingClientRect();
  const [left, top] = view.origin();
  const around = view.padding();
  return [box.x + around.left + left + view.scale("x")(item.steps[row]),
    box.y + around.top + top + view.scale("y")(item.columns[chart.y][row])];
}"""


def rows_of(study: Path, label: str) -> list[dict[str, Any]]:
    runs = [RunFolder(path) for path in (study / "runs").iterdir()]
    return next(run.rows()[0] for run in runs if run.spec.label == label)


def readout(visit: Visit) -> dict[str, float]:
    spans = visit.page.query_selector_all("#readout span")
    return {span.get_attribute("data-key"): float(span.get_attribute("data-value")) for span in spans}


def bars(visit: Visit, chart: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = visit.page.evaluate(f"window.surefoot.views.get('{chart}').data('bins')")
    return found


def test_the_page_says_and_asks_for_nothing(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    assert visit.said == []
    assert visit.asked == [(study / "report.html").as_uri()]
    assert visit.page.title() == "Why <b>?"  # a name, not markup
    assert visit.page.locator("canvas").count() == visit.page.locator(".chart").count() == 18


def test_hovering_shows_the_stores_values_everywhere(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    for run, row in ((2, 3), (1, 1)):
        visit.page.locator("#chart-test-ece").scroll_into_view_if_needed()
        x, y = visit.page.evaluate(POINT, ["test-ece", run, row])
        visit.page.mouse.move(x, y)
        visit.page.wait_for_function(f"window.surefoot.at.run === {run} && window.surefoot.at.row === {row}")
        visit.page.wait_for_timeout(200)
        label = visit.page.evaluate(f"window.surefoot.page.runs[{run}].label")
        stored = rows_of(study, label)[row]
        shown = readout(visit)
        assert shown.keys() >= {"train/loss", "test/ece", "train/ggn_sharpness"}
        for key, value in shown.items():
            assert value == pytest.approx(stored[key], rel=1e-5), key
        assert f"{label}, step {stored['step']}" in visit.page.inner_text("#readout")
        for name in ("train-ece", "test-loss", "margins-test"):  # linked: the rule stands at the same step
            assert visit.page.evaluate(f"window.surefoot.views.get('{name}').signal('step')") == stored["step"]


def test_the_slider_changes_the_diagram_to_the_stores_bins(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    label = visit.page.evaluate("window.surefoot.page.runs[0].label")
    seen = []
    for row in (0, 4):
        visit.page.locator("#step").fill(str(row))
        visit.page.wait_for_function(f"window.surefoot.at.row === {row}")
        visit.page.wait_for_timeout(300)
        stored = rows_of(study, label)[row]
        shown = bars(visit, "reliability-test")
        held = [k for k in range(1, 16) if stored[f"test/bin_{k:02d}_count"]]
        assert len(shown) == len(held)
        for k, bar in zip(held, shown, strict=True):
            count, right = stored[f"test/bin_{k:02d}_count"], stored[f"test/bin_{k:02d}_right"]
            assert (bar["count"], bar["left"]) == (count, pytest.approx((k - 1) / 15))
            assert bar["confidence"] == pytest.approx(stored[f"test/bin_{k:02d}_confidence"], abs=1e-4)
            assert (bar["low"], bar["high"]) == pytest.approx(wilson(right / count, int(count), tail=0.025))
        seen.append(visit.page.locator("#chart-reliability-test canvas").screenshot())
        assert visit.page.evaluate("window.surefoot.views.get('test-ece').signal('step')") == stored["step"]
    assert seen[0] != seen[1]


def test_the_filter_takes_an_optimizer_away(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    before = visit.page.locator("#chart-train-ece canvas").screenshot()
    visit.page.locator("input[value=gd]").uncheck()
    visit.page.wait_for_timeout(400)
    assert visit.page.evaluate("window.surefoot.views.get('train-ece').signal('shown')") == ["adamw"]
    assert visit.page.locator("#chart-train-ece canvas").screenshot() != before
    assert visit.page.evaluate("window.surefoot.page.runs[window.surefoot.at.run].optimizer") == "adamw"
    assert visit.page.locator("#run option:not([hidden])").count() == 2
    visit.page.locator("input[value=gd]").check()
    assert visit.page.locator("#run option:not([hidden])").count() == 4


def test_everything_is_reached_by_the_keyboard(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    reached = set()
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        reached.add(visit.page.evaluate("document.activeElement.id || document.activeElement.name"))
    assert reached >= {"run", "step", "optimizer"}
    visit.page.locator("#step").focus()
    last = visit.page.evaluate("window.surefoot.at.row")
    visit.page.keyboard.press("ArrowLeft")
    visit.page.wait_for_function(f"window.surefoot.at.row === {last - 1}")


@pytest.mark.parametrize("visit", [PHONE, {**PHONE, "color_scheme": "dark"}], indirect=True)
def test_a_phone_has_nothing_to_scroll_sideways(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    widths = visit.page.evaluate("[...document.querySelectorAll('canvas')].map((c) => c.getBoundingClientRect().right)")
    assert max(widths) <= 390


def test_printing_leaves_the_controls_out(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    visit.page.emulate_media(media="print")
    assert not visit.page.locator("#step").is_visible()
    assert visit.page.locator("#chart-test-ece canvas").is_visible()
    assert visit.page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_dark_pages_have_dark_charts(visit: Visit, study: Path) -> None:
    visit.go(study / "report.html")
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 22, 22)"
    assert visit.page.evaluate("window.surefoot.views.get('test-ece').background()") == "#161616"


def test_the_page_of_a_file_and_of_a_run(visit: Visit, study: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "p.npz", logits=generator.normal(size=(300, 3)), labels=generator.integers(3, size=300))
    assert main(["evaluate", str(tmp_path / "p.npz"), "--html", str(tmp_path / "p.html")]) == 0
    visit.go(tmp_path / "p.html")
    assert sum(bar["count"] for bar in bars(visit, "reliability-before")) == 300
    assert "overconfident on test samples" in visit.page.inner_text("main")
    folder = next((study / "runs").iterdir())
    assert main(["report", str(folder), "--out", str(tmp_path / "run")]) == 0
    visit.go(tmp_path / "run" / "report.html")
    assert sum(bar["count"] for bar in bars(visit, "reliability-test")) == 1597
    assert visit.said == []
    assert len(visit.asked) == 2


def test_a_live_page_follows_a_run(visit: Visit, study: Path, tmp_path: Path) -> None:
    source = next((study / "runs").iterdir())
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(source / "run.json", folder)
    lines = (source / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:3]))
    serving, address = server(Live(version=lambda: version(folder), make=lambda: live_page(folder)))
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    try:
        visit.page.goto(address)
        visit.page.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=60_000)
        assert visit.page.evaluate("window.surefoot.page.runs[0].steps.length") == 3
        visit.page.wait_for_function("document.getElementById('live').textContent.startsWith('Live at')")
        (folder / "metrics.jsonl").write_bytes(b"".join(lines))
        many = f"window.surefoot.page.runs[0].steps.length === {len(lines)}"
        visit.page.wait_for_function(many, timeout=30_000)
        visit.page.wait_for_timeout(300)
        assert visit.page.evaluate("window.surefoot.views.get('test-ece').signal('step')") == 60
        assert len(visit.page.evaluate("window.surefoot.views.get('test-ece').data('all')")) == len(lines)
        assert f"{len(lines)} observations" in visit.page.inner_text("h1 + p")
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()
    visit.page.wait_for_function("document.getElementById('live').textContent.startsWith('No longer live')")
    assert all(url.startswith(address) for url in visit.asked)
