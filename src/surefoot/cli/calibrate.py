"""`surefoot calibrate`: fit post-hoc maps on one file, show what they do to another."""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.cli.evaluate import check_enough, check_writable
from surefoot.cli.request import request
from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.metrics import Interval
    from surefoot.posthoc import Map
    from surefoot.predictions import Predictions

_SHOWN = ("accuracy", "nll", "brier", "ece", "ada_ece", "classwise_ece", "sm_ece", "kce")
_HELD_OUT = 5  # one sample in so many


@dataclass
class CalibrateCommand:
    """Fit post-hoc maps on validation predictions and show test calibration before and after, with intervals.

    The choice between methods is made on a held-out fifth of the validation file, by NLL; the test file has no say.

    Example: surefoot calibrate val.npz test.npz --method temperature sms --save map.safetensors
    """

    validation: tyro.conf.Positional[Path]
    """What to fit on."""
    test: tyro.conf.Positional[Path]
    """What to measure on; may be the same file under other array names."""
    method: tuple[str, ...] = ("temperature",)
    """Post-hoc maps by name (`surefoot list posthoc`), or all."""
    logits: tuple[str, ...] = ()
    """Name of the logits: one for both files, or one for each."""
    probs: tuple[str, ...] = ()
    """Name of the probabilities, if there are no logits: one for both files, or one for each."""
    labels: tuple[str, ...] = ()
    """Name of the true classes: one for both files, or one for each."""
    bins: int = 15
    """Number of bins of the binned errors."""
    level: float = 0.95
    """How often the intervals are meant to hold the truth."""
    save: Path | None = None
    """Write the fitted map there, for `surefoot apply`; of several, the one best on the held-out split."""
    json: bool = False
    """Print all as JSON: per method its parameters, before, after, converged."""

    def __call__(self) -> int:
        with request():
            from surefoot.io.predictions_file import read_predictions
            from surefoot.metrics import intervals
            from surefoot.metrics._intervals._interval import IntervalOptions
            from surefoot.posthoc import POSTHOC
            from surefoot.registry import look_up

            IntervalOptions(level=self.level, num_bins=self.bins)
            for name in self.method:
                look_up("method", name, {**POSTHOC, "all": None})
            names = list(POSTHOC) if "all" in self.method else list(dict.fromkeys(self.method))
            if self.save:
                check_writable(self.save)
            if not names:
                raise ValueError("`--method` must name at least one method.")
            files = [
                read_predictions(
                    path,
                    logits=_of("logits", self.logits, k),
                    probabilities=_of("probs", self.probs, k),
                    labels=_of("labels", self.labels, k),
                )
                for k, path in enumerate((self.validation, self.test))
            ]
            for predictions, path in zip(files, (self.validation, self.test), strict=True):
                check_enough(predictions, path, num_bins=self.bins)
            validation, test = files
            if bool((validation.predicted == validation.labels).all()):
                raise ValueError(
                    f"No sample of {self.validation} is wrong, so it cannot say how sure to be: "
                    "give samples that the model was not trained on."
                )
            if validation.num_classes != test.num_classes:
                raise ValueError(
                    f"{self.test} must have {validation.num_classes} classes like {self.validation}, "
                    f"got {test.num_classes}."
                )
        found: dict[str, dict[str, Any]] = {}
        maps: dict[str, Map] = {}
        after: dict[str, dict[str, Interval]] = {}
        measured = partial(intervals, names=_SHOWN, level=self.level, num_bins=self.bins)
        with working("fitting") as progress:
            before = measured(test)
            for name in names:
                progress(name)
                try:
                    maps[name] = _fitted(name, validation.floored(), source=str(self.validation))
                except ValueError as error:
                    found[name] = {"error": str(error), "converged": False}
                    continue
                after[name] = measured(_mapped(maps[name], test.floored()))
                found[name] = _record(maps[name], before, after[name], _held_out_nll(name, validation.floored()))
        scores = {name: record.get("held_out_nll") for name, record in found.items()}
        untouched = _held_out_nll(None, validation)
        known = {name: score for name, score in {"none": untouched, **scores}.items() if score is not None}
        picked = min(known, key=known.__getitem__, default="none")  # doing nothing is one of the choices
        if not maps:
            reasons = "; ".join(f"{name}: {record['error'].rstrip('.')}" for name, record in found.items())
            with request():
                raise ValueError(f"No map could be fitted on {self.validation}. {reasons}.")
        if self.save:
            chosen = min((name for name in maps if name in known), key=known.__getitem__, default=next(iter(maps)))
            with request():
                maps[chosen].save(self.save)
            say(f"Map {chosen}: {self.save}")
        if self.json:
            sizes = {"n_validation": validation.num_samples, "n_test": test.num_samples}
            about = {"validation": str(self.validation), "test": str(self.test), **sizes}
            print_json(
                {
                    **about,
                    "level": self.level,
                    "num_bins": self.bins,
                    "held_out_nll_before": untouched,
                    "picked": picked,
                    "methods": found,
                }
            )
        else:
            print_table(_table(self, before, after, found, picked, untouched, test))
        return 0


def _of(option: str, names: tuple[str, ...], k: int) -> str | None:
    if len(names) > 2:
        raise ValueError(f"`--{option}` must be one name for both files or one for each, got {len(names)} names.")
    return names[min(k, len(names) - 1)] if names else None


def _fitted(name: str, predictions: "Predictions", *, source: str) -> "Map":
    from surefoot.posthoc import POSTHOC

    fitted = POSTHOC[name].fit(predictions)
    return replace(fitted, fitted=replace(fitted.fitted, source=source))


def _mapped(fitted: "Map", predictions: "Predictions") -> "Predictions":
    from surefoot.predictions import Predictions

    return Predictions(fitted(predictions.exact), predictions.labels)


def _held_out_nll(name: str | None, validation: "Predictions") -> float | None:
    """NLL on a fifth of the validation samples of the map fitted on the rest; None where there is none.

    Without a name, that of the predictions as they are.
    """
    import torch

    from surefoot.metrics import nll

    order = torch.randperm(validation.num_samples, generator=torch.Generator().manual_seed(0))
    cut = max(1, validation.num_samples // _HELD_OUT)
    held = validation[order[:cut]]
    if name is not None:
        try:
            held = _mapped(_fitted(name, validation[order[cut:]], source=""), held)
        except ValueError:
            return None
    value = float(nll(held))
    return value if math.isfinite(value) else None


def _record(
    fitted: "Map", before: "dict[str, Interval]", after: "dict[str, Interval]", held_out: float | None
) -> dict[str, Any]:
    from surefoot.metrics.evaluation import interval_record

    return {
        **({"temperature": fitted.parameters["temperature"]} if "temperature" in fitted.parameters else {}),
        "parameters": fitted.parameters,
        "converged": fitted.fitted.converged,
        "certificate": fitted.fitted.certificate,
        "num_steps": fitted.fitted.num_steps,
        "held_out_nll": held_out,
        "before": {name: interval_record(each) for name, each in before.items()},
        "after": {name: interval_record(each) for name, each in after.items()},
    }


def _table(
    asked: CalibrateCommand,
    before: "dict[str, Interval]",
    after: "dict[str, dict[str, Interval]]",
    found: dict[str, dict[str, Any]],
    picked: str,
    untouched: float | None,
    test: "Predictions",
) -> Table:
    columns = ("accuracy", "nll", "ece", "classwise_ece")
    rows = [
        (
            "none" + (" *" if picked == "none" else ""),
            "-",
            _nll(untouched),
            *(_cell(name, before[name]) for name in columns),
        )
    ]
    notes = []
    for name, record in found.items():
        if name not in after:
            notes.append(f"{name}: not fitted: {record['error']}")
            continue
        fit = f"T = {record['temperature']:.4g}" if "temperature" in record else "yes"
        rows.append(
            (
                name + (" *" if name == picked else ""),
                fit if record["converged"] else "not converged",
                _nll(record["held_out_nll"]),
                *(_cell(k, after[name][k]) for k in columns),
            )
        )
    notes.append(f"* {picked} has the least NLL on the held-out fifth of {asked.validation}.")
    if "temperature" in after:
        notes.append("The ECE after temperature is the TCE by NLL; after temperature_ece, the TCE by validation ECE.")
    return Table(
        "calibration",
        f"{asked.test}: {test.num_samples:,} samples, before and after maps fitted on {asked.validation}",
        (
            "method",
            "fitted",
            "held-out NLL",
            "accuracy",
            *(f"{name} ({100 * asked.level:g} %)" for name in columns[1:]),
        ),
        tuple(rows),
        tuple(notes),
    )


def _nll(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _cell(name: str, found: "Interval") -> str:
    return f"{found.value:.4f}" if name == "accuracy" else f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}]"
