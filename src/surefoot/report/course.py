"""Runs as page.js reads them, and the charts over them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from surefoot.diagnosis.bins import num_bins, stored_bins
from surefoot.diagnosis.diagnosis import Diagnosis, diagnose
from surefoot.diagnosis.facts import Facts, edge, learning_rate, run_facts
from surefoot.report import charts
from surefoot.report.page import Chart, findings
from surefoot.report.plots import Run, colour_of, evenly
from surefoot.runs.trajectory import Row
from surefoot.runs.spec import RunSpec

MOST_RUNS = 200  # on one page; more are sampled, and said
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
    def of(cls, runs: Sequence[Run]) -> "Course":
        """The runs that have rows, at most 200 of them with at most 50 rows each, evenly taken."""
        held = [(spec, rows) for spec, rows in runs if rows]
        shown = evenly(held, MOST_RUNS)
        notes = []
        if len(shown) < len(held):
            notes.append(f"{len(shown)} of {len(held):,} runs are drawn, evenly taken; tables and verdicts are of all.")
        if any(len(rows) > MOST_ROWS for _, rows in shown):
            notes.append(f"Of runs with more than {MOST_ROWS} observations {MOST_ROWS} are drawn, evenly taken.")
        optimizers = list(dict.fromkeys(spec.optimizer.name for spec, _ in shown))
        keys = frozenset(key for _, rows in shown for key in rows[-1])
        wanted = [key for key in _wanted() if key in keys]
        most_bins = max((num_bins(rows[-1]) for _, rows in shown), default=0)
        data = {
            "optimizers": optimizers,
            "colours": {name: colour_of(name) for name in optimizers},
            "num_bins": most_bins,
            "z": NormalDist().inv_cdf(0.975),
            "highest_edge": 1.1 * max(_values(shown, "train/ggn_sharpness"), default=0.0),
            "readout": {key: _named(key) for key in wanted if key.partition("/")[2] in charts.QUANTITIES},
            "runs": [_run(spec, evenly(rows, MOST_ROWS), wanted, _dash(shown, spec)) for spec, rows in shown],
        }
        facts = tuple(run_facts(spec, rows) for spec, rows in held)
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
    known = [(each.subject, each.test) for each in facts if each.test is not None]
    if not known:
        return (("undecided", "No run has an observed test set: nothing can be said of the models' confidence."),)
    gaps = sorted(test.whole.gap for _, test in known)
    middle = gaps[len(gaps) // 2]
    said: list[tuple[str, str]] = [
        (
            "look" if abs(middle) > 0.02 else "fine",
            f"At the end {sum(gap > 0 for gap in gaps)} of {len(gaps)} models are more sure than right on test "
            f"samples; the middle one by {100 * middle:+.1f} points ({100 * gaps[0]:+.1f} to {100 * gaps[-1]:+.1f}).",
        )
    ]
    trained = [each.train.whole.gap for each in facts if each.train is not None]
    if trained:
        low = sum(gap < 0 for gap in trained)
        said.append(
            ("undecided", f"On training samples {low} of {len(trained)} models are less sure than right at the end.")
        )
    if len(known) > 1:
        subject, best = min(known, key=lambda item: item[1].ece)
        sentence = (
            f"Lowest final test ECE: {best.ece:.3f} by {subject}, accuracy {best.whole.accuracy:.3f}. One of "
            f"{len(known)}, picked after the fact."
        )
        said.append(("undecided", sentence))
    return tuple(said)


def run_sentences(diagnosis: Diagnosis) -> list[str]:
    """A run's diagnosis as plain sentences."""
    return [sentence for _, sentence in findings(diagnosis)]


def _run(spec: RunSpec, rows: Sequence[Row], keys: Sequence[str], dash: int) -> dict[str, Any]:
    present = [key for key in keys if any(row.get(key) is not None for row in rows)]
    return {
        "label": spec.label,
        "optimizer": spec.optimizer.name,
        "lr": learning_rate(spec),
        "seed": spec.seed,
        "dash": dash,
        "edge": edge(spec),
        "steps": [int(row["step"] or 0) for row in rows],
        "columns": {key: [_short(row.get(key)) for row in rows] for key in present},
        "bins": {split: [_bins(row, split) for row in rows] for split in _SPLITS if num_bins(rows[-1])},
        "diagnosis": run_sentences(diagnose(run_facts(spec, rows))),
    }


def _bins(row: Row, split: str) -> list[int]:
    """Place, count, mean confidence in 1/10,000 and number of right ones of the bins that hold samples, one by one."""
    return [
        number
        for each in stored_bins(row, split)
        for number in (each.place, each.count, round(1e4 * each.confidence), each.num_right)
    ]


def _wanted() -> list[str]:
    names = [*charts.QUANTITIES, *charts.FAN, *(key for keys in charts.BOUNDS.values() for key in keys)]
    return [f"{split}/{name}" for name in names for split in _SPLITS]


def _named(key: str) -> str:
    split, _, name = key.partition("/")
    return f"{split} {charts.QUANTITIES[name].partition(' (')[0]}"


def _dash(runs: Sequence[Run], spec: RunSpec) -> int:
    """The how-manieth learning rate of its optimizer this is."""
    rates = sorted({learning_rate(each) for each, _ in runs if each.optimizer.name == spec.optimizer.name})
    return rates.index(learning_rate(spec)) % len(charts.DASHES) if learning_rate(spec) in rates else 0


def _values(runs: Sequence[Run], key: str) -> list[float]:
    return [value for _, rows in runs for row in rows if (value := row.get(key)) is not None]


def _short(value: float | None, *, digits: int = 7) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")
