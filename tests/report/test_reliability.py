import math

import pytest

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from surefoot.metrics import ReliabilityBin
from surefoot.report.reliability import histogram_axes, reliability_axes, reliability_figure

BINS = (
    ReliabilityBin(0.0, 0.25, 0, math.nan, math.nan, math.nan, math.nan),
    ReliabilityBin(0.25, 0.5, 10, 0.4, 0.0, 0.0, 0.3),
    ReliabilityBin(0.5, 0.75, 0, math.nan, math.nan, math.nan, math.nan),
    ReliabilityBin(0.75, 1.0, 30, 1.0, 0.9, 0.75, 0.97),
)


def test_bars_stand_where_their_bins_are_and_empty_bins_have_none() -> None:
    ax = Figure().subplots()
    reliability_axes(BINS, ax)
    bars = [(bar.get_x(), bar.get_width(), bar.get_y(), bar.get_height()) for bar in ax.patches]
    assert bars == [
        (0.25, 0.25, 0, 0.0),
        (0.25, 0.25, 0.0, 0.4),  # the gap to the confidence
        (0.75, 0.25, 0, 0.9),
        (0.75, 0.25, 0.9, pytest.approx(0.1)),
    ]
    points = ax.containers[-1].lines[0]
    assert points.get_xdata().tolist() == [0.4, 1.0]
    assert points.get_ydata().tolist() == [0.0, 0.9]
    limits = ax.containers[-1].lines[2][0].get_segments()
    assert [segment[:, 1].tolist() for segment in limits] == [[0.0, 0.3], pytest.approx([0.75, 0.97])]


def test_the_histogram_has_shares() -> None:
    ax = Figure().subplots()
    histogram_axes(BINS, ax)
    assert [(bar.get_x(), bar.get_height()) for bar in ax.patches] == [(0.25, 0.25), (0.75, 0.75)]


def test_the_figure_is_the_same_every_time() -> None:
    first = reliability_figure(BINS, title="here")
    assert first.startswith("<svg")
    assert "here" in first
    assert reliability_figure(BINS, title="here") == first
