"""`surefoot calibrate`: fit post-hoc maps on one file, show what they do to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.cli.evaluate import check_classes, check_enough, check_writable
from surefoot.cli.request import request
from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.metrics import Interval
    from surefoot.posthoc import Map
    from surefoot.posthoc.choice import Candidate, Choice
    from surefoot.predictions import Predictions

    Metrics = Mapping[str, Interval]

_SHOWN = ("accuracy", "nll", "brier", "ece", "ada_ece", "classwise_ece", "sm_ece", "kce")
_COLUMNS = ("accuracy", "nll", "ece", "classwise_ece")


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
    """Post-hoc maps by name (`surefoot list posthoc`), auto for a few of them, or all."""
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
        with request({"validation": self.validation, "test": self.test}):
            from surefoot.metrics import intervals
            from surefoot.posthoc import choose
            from surefoot.posthoc.choice import calibrated

            kinds = self._kinds()
            validation, test = self._files()
            with working("fitting") as progress:
                choice = choose(validation, kinds, source=str(self.validation), on_method=progress)
                measured = partial(intervals, names=_SHOWN, level=self.level, num_bins=self.bins)
                before = measured(test)
                after = {
                    each.name: measured(calibrated(each.calibrator, test))
                    for each in choice.fitted
                    if each.calibrator is not None
                }
            if self.save and choice.best.calibrator is not None:
                choice.best.calibrator.save(self.save)
                say(f"Map {choice.best.name}: {self.save}")
        if self.json:
            print_json(self._record(choice, before, after, validation.num_samples, test.num_samples))
        else:
            print_table(self._table(choice, before, after, test.num_samples))
        return 0

    def _kinds(self) -> "dict[str, type[Map]]":
        """The kinds of maps that were asked for, once everything else that was asked for is checked."""
        from surefoot.metrics import IntervalOptions
        from surefoot.posthoc import kinds_of

        IntervalOptions(level=self.level, num_bins=self.bins)
        kinds = kinds_of(self.method)
        if self.save:
            check_writable(self.save)
        return kinds

    def _files(self) -> "tuple[Predictions, Predictions]":
        from surefoot.io import read_predictions
        from surefoot.posthoc.choice import check_some_wrong

        paths = (self.validation, self.test)
        validation, test = (
            read_predictions(
                path,
                logits=_of("logits", self.logits, k),
                probabilities=_of("probs", self.probs, k),
                labels=_of("labels", self.labels, k),
            )
            for k, path in enumerate(paths)
        )
        for predictions, path in zip((validation, test), paths, strict=True):
            check_enough(predictions, path, num_bins=self.bins)
        check_some_wrong(validation)
        check_classes(test, self.test, validation, self.validation)
        return validation, test

    def _record(
        self,
        choice: "Choice",
        before: "Metrics",
        after: "Mapping[str, Metrics]",
        num_validation: int,
        num_test: int,
    ) -> dict[str, Any]:
        return {
            "validation": str(self.validation),
            "test": str(self.test),
            "n_validation": num_validation,
            "n_test": num_test,
            "level": self.level,
            "num_bins": self.bins,
            "held_out_nll_before": choice.nll_before,
            "picked": choice.picked,
            "methods": {each.name: _record(each, before, after.get(each.name, {})) for each in choice.candidates},
        }

    def _table(self, choice: "Choice", before: "Metrics", after: "Mapping[str, Metrics]", num_test: int) -> Table:
        from surefoot.posthoc.choice import NOTHING

        metrics: dict[str, Metrics] = {NOTHING: before, **after}
        fits = {NOTHING: "-", **{each.name: each.fit_text for each in choice.fitted}}
        scores = {NOTHING: choice.nll_before, **{each.name: each.held_out_nll for each in choice.fitted}}
        rows = tuple(
            (
                name + (" *" if name == choice.picked else ""),
                fit,
                "-" if (score := scores[name]) is None else f"{score:.4f}",
                *(_cell(key, metrics[name][key]) for key in _COLUMNS),
            )
            for name, fit in fits.items()
        )
        notes = [f"{each.name}: not fitted: {each.error}" for each in choice.candidates if each.error]
        notes.append(f"* {choice.picked} has the least NLL on the held-out fifth of {self.validation}.")
        if "temperature" in after:
            notes.append(
                "The ECE after temperature is the TCE by NLL; after temperature_ece, the TCE by validation ECE."
            )
        return Table(
            "calibration",
            f"{self.test}: {num_test:,} samples, before and after maps fitted on {self.validation}",
            (
                *("method", "fitted", "held-out NLL", "accuracy"),
                *(f"{key} ({100 * self.level:g} %)" for key in _COLUMNS[1:]),
            ),
            rows,
            tuple(notes),
        )


def _of(option: str, names: tuple[str, ...], k: int) -> str | None:
    if len(names) > 2:
        raise ValueError(f"`--{option}` must be one name for both files or one for each, got {len(names)} names.")
    return names[min(k, len(names) - 1)] if names else None


def _record(candidate: "Candidate", before: "Metrics", after: "Metrics") -> dict[str, Any]:
    from surefoot.metrics.evaluation import interval_record

    calibrator = candidate.calibrator
    if calibrator is None:
        return {"error": candidate.error, "converged": False}
    parameters, fitted = calibrator.parameters, calibrator.fitted
    return {
        **({"temperature": parameters["temperature"]} if "temperature" in parameters else {}),
        "parameters": parameters,
        "converged": fitted.converged,
        "certificate": fitted.certificate,
        "num_steps": fitted.num_steps,
        "held_out_nll": candidate.held_out_nll,
        "before": {name: interval_record(each) for name, each in before.items()},
        "after": {name: interval_record(each) for name, each in after.items()},
    }


def _cell(name: str, limits: "Interval") -> str:
    return f"{limits.value:.4f}" if name == "accuracy" else str(limits)
