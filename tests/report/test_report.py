import re
from pathlib import Path
from typing import Any

import pytest

from surefoot.report.page import Section, render
from surefoot.report.plots import colour_of, correlation_by_end, phase, trajectories
from surefoot.report.study import write_page, write_tables
from surefoot.runs.spec import RunSpec
from surefoot.runs.store import Row
from surefoot.table import Table


def runs() -> list[tuple[RunSpec, list[Row]]]:
    found = []
    for name, lr in (("gd", 0.1), ("gd", 0.2), ("adamw", 0.01)):
        spec = RunSpec.from_dict({"optimizer": {"name": name, "lr": lr}, "budget": 30})
        keys = ("loss", "accuracy", "ece", "margin_mean", "ggn_sharpness")
        rows: list[Row] = [
            {"step": step, **{f"{s}/{k}": float(step + lr) for s in ("train", "test") for k in keys}}
            for step in range(30)
        ]
        rows[3]["train/ece"] = None  # a gap, not an error
        found.append((spec, rows))
    return found


def outcome(title: str = "Why?") -> dict[str, Any]:
    table = Table("correlation", "r", ("a", "b"), (("x", 1.0),))
    curve = {"optimizer": "gd", "lr": 0.1, "seed": 0, "steps": [5, 10], "r": {"train": [0.5, None]}}
    maker = {"code": "abc", "commit": None, "versions": {"torch": "2"}, "hardware": {"cores": 2}, "num_runs": 3}
    return {
        "study": "s",
        "scale": "digits",
        "title": title,
        "about": "About.",
        "partial": False,
        "num_runs": {"done": 3},
        "not_done": [{"run": "gd lr=9", "status": "diverged", "reason": "loss is nan at step 3"}],
        "seeds": [0],
        "origins": [maker],
        "notes": [],
        "cells": [],
        "tables": [table],
        "claims": Table("claims", "claims", ("c",), (("y",),)),
        "figures": "coupling",
        "curves": [curve],
    }


def test_figures_are_the_same_bytes_every_time() -> None:
    for draw in (
        lambda: trajectories(runs(), optimizer="gd"),
        lambda: phase(runs(), optimizers=["gd", "adamw"]),
        lambda: correlation_by_end(outcome()["curves"], optimizers=["gd"]),
    ):
        first = draw()
        assert first == draw()
        assert first.startswith("<svg")


def test_the_trajectory_grid_shows_what_it_promises() -> None:
    svg = trajectories(runs(), optimizer="gd")
    for label in ("loss", "accuracy", "ECE", "mean margin", "GN sharpness", "train", "test", "lr 0.1", "lr 0.2"):
        assert f">{label}<" in svg, label
    assert svg.count("stroke-dasharray") > trajectories(runs(), optimizer="adamw").count("stroke-dasharray")


def test_the_page_stands_alone_and_names_what_is_left_out(tmp_path: Path) -> None:
    write_tables(tmp_path, outcome())
    html = write_page(tmp_path, outcome(), runs()).read_text()
    assert "diverged" in html
    assert "loss is nan at step 3" in html
    assert "commit unknown" in html
    assert not re.search(r"<script|<link|src=|@import|url\(http", html)
    assert html.count("<svg") == 4  # phase, correlation by end, two optimizers
    assert "diverged" in (tmp_path / "tables.md").read_text()
    assert (tmp_path / "correlation.csv").read_text() == "a,b\nx,1.0\n"


def test_names_with_html_in_them_are_escaped(tmp_path: Path) -> None:
    html = write_page(tmp_path, outcome("<script>alert(1)</script>"), runs()).read_text()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_study_without_runs_still_has_a_page(tmp_path: Path) -> None:
    empty = {**outcome(), "curves": [], "num_runs": {"missing": 2}, "origins": [], "seeds": []}
    assert "2 missing" in write_page(tmp_path, empty, []).read_text()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, call in (
        ("matplotlib", lambda: phase(runs(), optimizers=["gd"])),
        ("jinja2", lambda: render(title="", subtitle="", about=(), sections=(Section("x"),), origin=())),
    ):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(ImportError, match=r"pip install 'surefoot\[report\]'"):
            call()


def test_every_optimizer_has_one_colour() -> None:
    assert len({colour_of(name) for name in ("gd", "sgd", "adamw")}) == 3
