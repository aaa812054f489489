"""Runs as page.js reads them, and the charts over them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from surefoot.diagnosis.bins import num_bins, stored_bins
from surefoot.diagnosis.diagnosis import Diagnosis, diagnose
from surefoot.diagnosis.facts import Facts, edge, run_facts
from surefoot.report import charts
from surefoot.report.page import Chart, findings
from surefoot.report.plots import colour_of, evenly
from surefoot.runs.trajectory import Trajectory

MOST_RUNS = 200  # on one page; more are sampled, and the page says so
MOST_ROWS = 50  # of one run
_SPLITS = ("train", "test")


@dataclass(frozen=True)
class Course:
    """What a page shows of some runs."""

    data: dict[str, Any]
    notes: tuple[str, ...]  # what was left out
    optimizers: list[str]
    keys: frozenset[str]  # that some run has
    num_bins: int
    facts: tuple[Facts, ...] = field(default=())  # of every run, shown or not

    @classmethod
    def of(cls, runs: Sequence[Trajectory]) -> "Course":
        """The runs that were observed, at most 200 of them with at most 50 observations each, evenly taken."""
        observed = [run for run in runs if len(run)]
        shown = evenly(observed, MOST_RUNS)
        notes = []
        if len(shown) < len(observed):
            notes.append(
                f"{len(shown)} of {len(observed):,} runs are drawn, evenly taken; tables and verdicts are of all."
            )
        if any(len(run) > MOST_ROWS for run in shown):
            notes.append(f"Of runs with more than {MOST_ROWS} observations {MOST_ROWS} are drawn, evenly taken.")
        optimizers = list(dict.fromkeys(run.optimizer for run in shown))
        keys = frozenset(key for run in shown for key in run.columns)
        wanted = [key for key in _wanted() if key in keys]
        most_bins = max((num_bins(run.columns, split=split) for run in shown for split in _SPLITS), default=0)
        data = {
            "optimizers": optimizers,
            "colours": {name: colour_of(name) for name in optimizers},
            "num_bins": most_bins,
            "z": NormalDist().inv_cdf(0.975),
            "highest_edge": 1.1 * max(_values(shown, "train/ggn_sharpness"), default=0.0),
            "readout": {key: _named(key) for key in wanted if key.partition("/")[2] in charts.QUANTITIES},
            "runs": [_run(run, wanted, _dash(shown, run)) for run in shown],
        }
        facts = tuple(map(run_facts, observed))
        return cls(data, tuple(notes), optimizers, keys, most_bins, facts)

    def trajectories(self) -> tuple[Chart, ...]:
        """Every quantity over steps, training and test beside each other."""
        limit = " Dashed: 2/lr of plain gradient descent, where it is not far above all runs."
        styles = "one colour per optimizer, one dash per learning rate, thick the run that is picked."
        return tuple(
            Chart(
                key.replace("/", "-"),
                charts.course(key, optimizers=self.optimizers),
                {"kind": "course", "y": key},
                f"Every run's {_named(key)} by step; {styles}{limit if key.endswith('sharpness') else ''}",
            )
            for key in (f"{split}/{name}" for name in charts.QUANTITIES for split in _SPLITS)
            if key in self.keys
        )

    def phases(self) -> tuple[Chart, ...]:
        """ECE against sharpness."""
        return tuple(
            Chart(
                f"phase-{split}",
                charts.phase(split, optimizers=self.optimizers),
                {"kind": "course", "x": f"{split}/ggn_sharpness", "y": f"{split}/ece"},
                f"Where a line runs along the diagonal, {split} ECE and sharpness rise and fall together: dot first "
                "observation, cross last.",
            )
            for split in _SPLITS
            if {f"{split}/ggn_sharpness", f"{split}/ece"} <= self.keys
        )

    def fans(self) -> tuple[Chart, ...]:
        """The margins of the picked run."""
        return tuple(
            Chart(
                f"margins-{split}",
                charts.fan(split),
                {"kind": "one", "keys": [f"{split}/{name}" for name in charts.FAN]},
                f"Margins of the {split} samples of the picked run: line the median, bands from the 1st, 5th and 25th "
                "to the 75th percentile, dotted the smallest. Below 0 a sample is wrong.",
            )
            for split in _SPLITS
            if f"{split}/margin_q50" in self.keys
        )

    def reliabilities(self) -> tuple[Chart, ...]:
        """The reliability diagram of the picked run at the picked step, with the histogram under it."""
        if not self.num_bins:
            return ()
        return tuple(
            Chart(f"{kind}-{split}", spec, {"kind": "bins", "split": split}, caption)
            for kind, spec, captions in (
                (
                    "reliability",
                    charts.reliability(),
                    "Accuracy ({} samples, 95 % Wilson intervals) against confidence at the picked step: on the "
                    "diagonal the model is as right as it is sure.",
                ),
                ("confidences", charts.histogram(), "How often the model is how sure of {} samples at that step."),
            )
            for split in ("test", "train")
            if f"{split}/bin_01_count" in self.keys
            for caption in [captions.format(split)]
        )

    def certificates(self) -> tuple[Chart, ...]:
        """Bounds of the picked run."""
        return tuple(
            Chart(
                f"bound-{what}-{split}",
                charts.bound(what, split),
                {"kind": "one", "keys": [f"{split}/{key}" for key in names]},
                f"What is measured stays below its bounds, {split} set, the picked run, log scale.",
            )
            for what, names in charts.BOUNDS.items()
            for split in _SPLITS
            if f"{split}/{names[0]}" in self.keys
        )

    def charts(self) -> tuple[Chart, ...]:
        """All of them."""
        return (
            *self.trajectories(),
            *self.phases(),
            *self.reliabilities(),
            *self.fans(),
            *self.certificates(),
        )


def overview(facts: Sequence[Facts]) -> tuple[tuple[str, str], ...]:
    """How the runs of a study end, taken together."""
    tested = [(each.subject, each.test) for each in facts if each.test is not None]
    if not tested:
        return (("undecided", "No run has an observed test set: the models' confidence is not known."),)
    gaps = sorted(test.whole.gap for _, test in tested)
    middle = gaps[len(gaps) // 2]
    sentences: list[tuple[str, str]] = [
        (
            "look" if abs(middle) > 0.02 else "fine",
            f"At the end {sum(gap > 0 for gap in gaps)} of {len(gaps)} models are more sure than right on test "
            f"samples; the middle one by {100 * middle:+.1f} points ({100 * gaps[0]:+.1f} to {100 * gaps[-1]:+.1f}).",
        )
    ]
    trained = [each.train.whole.gap for each in facts if each.train is not None]
    if trained:
        low = sum(gap < 0 for gap in trained)
        sentences.append(
            ("undecided", f"On training samples {low} of {len(trained)} models are less sure than right at the end.")
        )
    if len(tested) > 1:
        subject, best = min(tested, key=lambda item: item[1].ece)
        sentence = (
            f"Lowest final test ECE: {best.ece:.3f} by {subject}, accuracy {best.whole.accuracy:.3f}. One of "
            f"{len(tested)}, picked after the fact."
        )
        sentences.append(("undecided", sentence))
    return tuple(sentences)


def run_sentences(diagnosis: Diagnosis) -> list[str]:
    """A run's diagnosis as plain sentences."""
    return [sentence for _, sentence in findings(diagnosis)]


def _run(run: Trajectory, keys: Sequence[str], dash: int) -> dict[str, Any]:
    shown = run.part(np.array(evenly(range(len(run)), MOST_ROWS), dtype=np.intp))
    present = [key for key in keys if shown.has(key)]
    binned = [split for split in _SPLITS if num_bins(run.columns, split=split)]
    observations = [shown.at(place) for place in range(len(shown))] if binned else []
    return {
        "label": run.spec.label,
        "optimizer": run.optimizer,
        "lr": run.lr,
        "seed": run.spec.seed,
        "dash": dash,
        "edge": edge(run.spec),
        "steps": shown.steps.tolist(),
        "columns": {key: [_short(value) for value in shown[key].tolist()] for key in present},
        "bins": {split: [_bins(each, split) for each in observations] for split in binned},
        "diagnosis": run_sentences(diagnose(run_facts(shown))),
    }


def _bins(observation: Mapping[str, float], split: str) -> list[int]:
    """Place, count, mean confidence in 1/10,000 and number of right ones of the bins that hold samples, one by one."""
    places = num_bins(observation, split=split)
    return [
        number
        for each in stored_bins(observation, split)
        for number in (
            *(round(each.left * places), each.count),
            *(round(1e4 * each.confidence), round(each.accuracy * each.count)),
        )
    ]


def _wanted() -> list[str]:
    names = [*charts.QUANTITIES, *charts.FAN, *(key for keys in charts.BOUNDS.values() for key in keys)]
    return [f"{split}/{name}" for name in names for split in _SPLITS]


def _named(key: str) -> str:
    split, _, name = key.partition("/")
    return f"{split} {charts.QUANTITIES[name].partition(' (')[0]}"


def _dash(runs: Sequence[Trajectory], run: Trajectory) -> int:
    """The how-manieth learning rate of its optimizer this is."""
    rates = sorted({each.lr for each in runs if each.optimizer == run.optimizer})
    return rates.index(run.lr) % len(charts.DASHES) if run.lr in rates else 0


def _values(runs: Sequence[Trajectory], key: str) -> list[float]:
    return [value for run in runs for value in run.measured(key)[0].tolist()]


def _short(value: float, *, digits: int = 7) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{digits}g}")
