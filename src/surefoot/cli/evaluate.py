"""`surefoot evaluate`: the metrics of a file of predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from surefoot.argument_error import ArgumentError
from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.cli.request import request
from surefoot.metric import meaning_of
from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.metrics import Evaluation, Interval
    from surefoot.predictions import Predictions
    from surefoot.scores import Scores

_BEFORE_AND_AFTER = ("ece", "nll", "brier", "mean_confidence", "accuracy")


@dataclass
class EvaluateCommand:
    """Measure the calibration of predictions in a file, every number with an interval.

    Reads .npz, .csv, .safetensors and .parquet. Arrays called logits (or probs) and labels are found; others are
    named. In csv and parquet, columns logits_0, logits_1, ... are the array logits. Nothing is guessed from values.

    Example: surefoot evaluate test.npz --logits resnet56 --labels y
    """

    file: tyro.conf.Positional[Path]
    """The predictions."""
    logits: str | None = None
    """Name of the logits (before softmax), [N, K]."""
    probs: str | None = None
    """Name of the probabilities, [N, K], if there are no logits."""
    labels: str | None = None
    """Name of the true classes, [N], numbered from 0."""
    bins: int = 15
    """Number of bins of the binned errors."""
    level: float = 0.95
    """How often the intervals are meant to hold the truth."""
    foreign: Path | None = None
    """A file of predictions on out-of-distribution samples, under the same names: adds `auroc_ood`."""
    label_counts: str | None = None
    """People's votes [N, K] for each sample: a file that holds `counts`, or the name of an array in FILE."""
    diagram: Path | None = None
    """Write the reliability diagram there, as SVG (needs the extra `report`)."""
    html: Path | None = None
    """Write one page there, with diagnosis, diagrams, classes and samples (needs the extra `report`)."""
    validation: Path | None = None
    """Predictions to fit the page's temperature on, under the same names; without them it is cross-fitted on FILE."""
    json: bool = False
    """Print all as JSON: each metric with value, low, high and method."""

    def __call__(self) -> int:
        with request({"predictions": self.file}):
            self._check()
            from surefoot.metrics import evaluate

            predictions, validation = self._predictions(), self._validation()
            if validation is not None and self.validation is not None:
                check_classes(validation, self.validation, predictions, self.file)
            more = self._metrics_of_more(predictions)
        with working("measuring") as progress:
            evaluation = evaluate(predictions, level=self.level, num_bins=self.bins, on_metric=progress)
        evaluation = evaluation.with_metrics(more)
        with request():
            if self.diagram:
                self._write_diagram(evaluation)
            if self.html:
                with working("writing the page"):
                    self._write_page(predictions, validation, evaluation)
        if self.json:
            print_json({"file": str(self.file), **evaluation.record()})
        else:
            print_table(evaluation.table(subject=str(self.file), methods=True))
        return 0

    def _check(self) -> None:
        """Refuse what cannot be, before any work."""
        for flag, path, endings in (("diagram", self.diagram, (".svg",)), ("html", self.html, (".html", ".htm"))):
            if path is not None:
                from surefoot.report.page import check_extra

                check_extra()
                if path.suffix not in endings:
                    raise ValueError(f"`--{flag}` must end in {endings[0]}, got {path}.")
                check_writable(path)
        if self.validation and not self.html:
            raise ValueError("`--validation` goes with `--html`: see `surefoot calibrate` for the numbers alone.")
        from surefoot.metrics import IntervalOptions

        IntervalOptions(level=self.level, num_bins=self.bins)

    def _predictions(self) -> "Predictions":
        from surefoot.io import read_predictions

        predictions = read_predictions(self.file, logits=self.logits, probabilities=self.probs, labels=self.labels)
        check_enough(predictions, self.file, num_bins=self.bins)
        return predictions

    def _validation(self) -> "Predictions | None":
        from surefoot.io import read_predictions

        if self.validation is None:
            return None
        return read_predictions(self.validation, logits=self.logits, probabilities=self.probs, labels=self.labels)

    def _metrics_of_more(self, predictions: "Predictions") -> "dict[str, Interval]":
        """The metrics that need votes or out-of-distribution samples beside the predictions."""
        from surefoot.io import read_label_counts, read_scores
        from surefoot.metrics import IntervalOptions, auroc_ood_interval, vote_intervals

        options = IntervalOptions(level=self.level, num_bins=self.bins)
        more: dict[str, Interval] = {}
        if self.label_counts:
            more |= vote_intervals(predictions, read_label_counts(self.label_counts, beside=self.file), options)
        if self.foreign:
            other = read_scores(self.foreign, logits=self.logits, probabilities=self.probs)
            check_classes(other, self.foreign, predictions, self.file)
            more["auroc_ood"] = auroc_ood_interval(predictions, other.confidence, options)
        return more

    def _write_diagram(self, evaluation: "Evaluation") -> None:
        from surefoot.files import write_atomically
        from surefoot.report.reliability import reliability_figure

        assert self.diagram is not None
        title = f"{self.file.name}: ECE {evaluation.metrics['ece']}, n = {evaluation.num_samples:,}"
        write_atomically(self.diagram, reliability_figure(evaluation.diagram, title=title).encode())
        say(f"Reliability diagram: {self.diagram}")

    def _write_page(
        self, predictions: "Predictions", validation: "Predictions | None", evaluation: "Evaluation"
    ) -> None:
        from surefoot.diagnosis.diagnosis import diagnose
        from surefoot.diagnosis.measuring import prediction_facts, temperature_scaled
        from surefoot.files import write_atomically
        from surefoot.metrics import reliability
        from surefoot.report.evaluation import evaluation_page

        scaled = temperature_scaled(
            predictions, validation, metrics=_BEFORE_AND_AFTER, num_bins=self.bins, level=self.level
        )
        facts = prediction_facts(predictions, subject=str(self.file), evaluation=evaluation, scaled=scaled)
        assert facts.test is not None
        assert self.html is not None
        after = scaled.predictions
        page = evaluation_page(
            subject=self.file.name,
            diagnosis=diagnose(facts),
            profile=facts.test,
            metrics=evaluation.table(subject=str(self.file), methods=True),
            diagram=evaluation.diagram,
            after=None if after is None else reliability(after, num_bins=self.bins, level=self.level),
            repaired=None if after is None else before_and_after(evaluation, scaled.metrics),
            how=scaled.how,
            level=self.level,
            command=f"surefoot evaluate {self.file} --html {self.html}",
        )
        write_atomically(self.html, page.html().encode())
        say(f"Page: {self.html.resolve()}")


def before_and_after(evaluation: "Evaluation", after: "Mapping[str, Interval]") -> Table:
    """Some metrics before and after a map, with intervals."""
    rows = tuple((name, str(evaluation.metrics[name]), str(after[name]), meaning_of(name)) for name in after)
    title = f"Before and after, {100 * evaluation.level:g} % intervals"
    return Table("repaired", title, ("metric", "before", "after", "what it is"), rows)


def check_writable(path: Path) -> None:
    """Raise ValueError where no file can be written, before any work."""
    if path.is_dir():
        raise ValueError(f"{path} cannot be written: it is a folder.")
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}.")


def check_enough(predictions: "Predictions", path: Path, *, num_bins: int) -> None:
    """Raise ValueError where there are too few samples or classes to say anything."""
    n = predictions.num_samples
    if n < 2:
        raise ValueError(f"{path} must hold at least 2 samples, got {n}.")
    if num_bins < 1:
        raise ArgumentError(f"`num_bins` must be at least 1, got {num_bins}.", "num_bins")
    if n < num_bins:
        raise ValueError(f"{path} must hold at least as many samples as there are bins, got {n} for {num_bins} bins.")
    if bool((predictions.labels == predictions.labels[0]).all()):
        raise ValueError(f"{path} must hold samples of at least 2 classes, got {int(predictions.labels[0])} only.")


def check_classes(scores: "Scores", path: Path, like: "Scores", like_path: Path) -> None:
    """Raise ValueError where two files have different numbers of classes."""
    if scores.num_classes != like.num_classes:
        raise ValueError(f"{path} must have {like.num_classes} classes like {like_path}, got {scores.num_classes}.")
