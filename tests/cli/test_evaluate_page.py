from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vl_convert")

from surefoot.cli import main
from surefoot.metric import METRICS
from surefoot.metrics import ece_test
from surefoot.report.page import chart_scripts


def write(path: Path, *, right: bool = False) -> Path:
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(400, 3))
    noisy = np.where(generator.random(400) < 0.5, logits.argmax(axis=1), generator.integers(3, size=400))
    np.savez(path, logits=logits, labels=logits.argmax(axis=1) if right else noisy)
    return path


def page_of(path: Path) -> str:
    return path.read_text().replace(chart_scripts(), "")


def test_the_page_has_every_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(tmp_path / "p<b>.npz"), tmp_path / "p.html"
    assert main(["evaluate", str(path), "--html", str(out)]) == 0
    assert f"Page: {out}" in capsys.readouterr().err
    html = page_of(out)
    for part in ("Diagnosis", "Before and after a temperature", "Class by class", "The most confidently wrong samples"):
        assert part in html
    assert "cross-fitted" in html
    assert "p&lt;b&gt;.npz" in html
    assert "<b>" not in html
    assert html.count('class="chart"') == 4


def test_validation_samples_take_the_place_of_cross_fitting(tmp_path: Path) -> None:
    path, out = write(tmp_path / "p.npz"), tmp_path / "p.html"
    assert main(["evaluate", str(path), "--html", str(out), "--validation", str(write(tmp_path / "v.npz"))]) == 0
    assert "fitted on 400 validation samples" in page_of(out)


def test_where_there_is_no_temperature_the_page_says_why(tmp_path: Path) -> None:
    path, out = write(tmp_path / "p.npz", right=True), tmp_path / "p.html"
    assert main(["evaluate", str(path), "--html", str(out)]) == 0
    html = page_of(out)
    assert "no sample is wrong" in html
    assert html.count('class="chart"') == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--html", "page.pdf"], "`--html` must end in .html, got page.pdf."),
        (["--html", "nowhere/page.html"], "there is no folder nowhere"),
        (["--validation", "p.npz"], "`--validation` goes with `--html`"),
    ],
)
def test_bad_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("p.npz"))
    assert main(["evaluate", "p.npz", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_page_measures_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: calls.append(name) or function(*args, **options)  # type: ignore[func-returns-value]

    record = METRICS["ece"]
    interval = counted("interval", record.interval_implementation)  # type: ignore[arg-type]
    monkeypatch.setitem(METRICS, "ece", replace(record, interval=interval))
    for module in ("surefoot.metrics.evaluation", "surefoot.diagnosis.profiling"):
        monkeypatch.setattr(f"{module}.ece_test", counted("test", ece_test))
    path, out = write(tmp_path / "p.npz"), tmp_path / "p.html"
    assert main(["evaluate", str(path), "--html", str(out)]) == 0
    assert sorted(calls) == ["interval", "interval", "test"]  # before and after the temperature
