"""`surefoot evaluate`: what a file of predictions is worth."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.cli.request import request
from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.metrics import Evaluation, Interval
    from surefoot.predictions import Predictions

MEANING = {
    "accuracy": "share of right predictions",
    "mean_confidence": "above the accuracy: overconfident on the whole",
    "ece": "mean gap between confidence and accuracy, equal-width bins",
    "ada_ece": "the same in bins of equal mass",
    "classwise_ece": "the same for every class's probability, mean over classes",
    "mce": "the largest gap of any bin",
    "rms_ce": "root mean squared gap",
    "debiased_rms_ce": "the same less what noise adds",
    "sm_ece": "the gap smoothed instead of binned",
    "oe": "overconfidence error",
    "ue": "underconfidence error",
    "kce": "kernel calibration error of the top label, width 0.2",
    "mmce": "the same, width 0.4",
    "nll": "negative log-likelihood, nats",
    "brier": "squared error of probabilities, summed over classes",
    "entropy": "of the probabilities, nats",
    "auroc_correct": "does confidence tell right from wrong?",
    "auroc_ovr": "do probabilities tell each class from the rest? mean over classes",
    "auroc_ood": "does confidence tell these samples from the foreign ones?",
    "aurc": "mean risk among the most confident",
    "vote_accuracy": "how often a voter agrees with the prediction",
    "vote_ece": "mean gap between confidence and the share of voters who agree",
    "vote_nll": "of the votes, nats",
    "vote_kl": "how far the probabilities are from the votes, KL(votes || probabilities), nats",
}


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
    """A file of predictions on another distribution, under the same names: adds `auroc_ood`."""
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
        with request():
            from surefoot.files import write_atomically
            from surefoot.io.label_counts import read_label_counts
            from surefoot.io.predictions_file import read_predictions, read_scores
            from surefoot.metrics import evaluate
            from surefoot.metrics._intervals._interval import IntervalOptions
            from surefoot.metrics._intervals.ranks import auroc_ood_interval
            from surefoot.metrics.evaluation import interval_record
            from surefoot.metrics.label_distribution import vote_intervals

            if self.diagram:
                from surefoot.report.page import check_extra

                check_extra()
                if self.diagram.suffix != ".svg":
                    raise ValueError(f"`--diagram` must end in .svg, got {self.diagram}.")
                check_writable(self.diagram)
            if self.html:
                from surefoot.report.page import check_extra

                check_extra()
                if self.html.suffix not in (".html", ".htm"):
                    raise ValueError(f"`--html` must end in .html, got {self.html}.")
                check_writable(self.html)
            elif self.validation:
                raise ValueError("`--validation` goes with `--html`: see `surefoot calibrate` for the numbers alone.")
            options = IntervalOptions(level=self.level, num_bins=self.bins)
            predictions = read_predictions(self.file, logits=self.logits, probabilities=self.probs, labels=self.labels)
            check_enough(predictions, self.file, num_bins=self.bins)
            held = None
            if self.validation:
                names = {"logits": self.logits, "probabilities": self.probs, "labels": self.labels}
                held = read_predictions(self.validation, **names)
                if held.num_classes != predictions.num_classes:
                    have = f"{predictions.num_classes} classes like {self.file}, got {held.num_classes}"
                    raise ValueError(f"{self.validation} must have {have}.")
            votes = {}
            if self.label_counts:
                counts = read_label_counts(self.label_counts, beside=self.file)
                votes = vote_intervals(predictions, counts, options)
            foreign = None
            if self.foreign:
                other = read_scores(self.foreign, logits=self.logits, probabilities=self.probs)
                if other.num_classes != predictions.num_classes:
                    have = f"{predictions.num_classes} classes like {self.file}, got {other.num_classes}"
                    raise ValueError(f"{self.foreign} must have {have}.")
                foreign = auroc_ood_interval(predictions, other.confidence, options)
        with working("measuring") as progress:
            found = evaluate(predictions, level=self.level, num_bins=self.bins, on_metric=progress)
        if self.diagram:
            from surefoot.report.reliability import reliability_figure

            with request():
                title = f"{self.file.name}: ECE {found.metrics['ece']}, n = {found.num_samples:,}"
                write_atomically(self.diagram, reliability_figure(found.diagram, title=title).encode())
                say(f"Reliability diagram: {self.diagram}")
        extra = {**votes, **({"auroc_ood": foreign} if foreign else {})}
        if self.html:
            with request(), working("writing the page"):
                page = self._page(predictions, held, found, _table(found, {**found.metrics, **extra}, self.file))
                write_atomically(self.html, page.encode())
            say(f"Page: {self.html.resolve()}")
        if self.json:
            records = {name: interval_record(each) for name, each in extra.items()}
            print_json({"file": str(self.file), **found.record(), **records})
            return 0
        print_table(_table(found, {**found.metrics, **extra}, self.file))
        return 0

    def _page(self, predictions: "Predictions", held: "Predictions | None", found: "Evaluation", metrics: Table) -> str:
        from surefoot.diagnosis.diagnosis import diagnose
        from surefoot.diagnosis.facts import Facts
        from surefoot.diagnosis.measuring import after_map, repair
        from surefoot.diagnosis.profiling import profile
        from surefoot.metrics import reliability
        from surefoot.metrics.evaluation import intervals
        from surefoot.report.evaluation import evaluation_page

        known = profile(predictions, num_bins=self.bins, level=self.level)
        mapped, how = after_map(predictions, validation=held)
        fixed = repair(predictions, mapped, how, num_bins=self.bins, level=self.level)
        after, repaired = None, None
        if mapped is not None:
            after = reliability(mapped, num_bins=self.bins, level=self.level)
            names = ("ece", "nll", "brier", "mean_confidence", "accuracy")
            new = intervals(mapped, names, level=self.level, num_bins=self.bins)
            rows = tuple((name, str(found.metrics[name]), str(new[name]), MEANING[name]) for name in names)
            title = f"Before and after, {100 * self.level:g} % intervals"
            repaired = Table("repaired", title, ("metric", "before", "after", "what it is"), rows)
        return evaluation_page(
            subject=self.file.name,
            diagnosis=diagnose(Facts(str(self.file), test=known, repair=fixed)),
            profile=known,
            metrics=metrics,
            diagram=found.diagram,
            after=after,
            repaired=repaired,
            how=how,
            level=self.level,
            command=f"surefoot evaluate {self.file} --html {self.html}",
        ).html()


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
        raise ValueError(f"`--bins` must be at least 1, got {num_bins}.")
    if n < num_bins:
        raise ValueError(f"{path} must hold at least as many samples as there are bins, got {n} for {num_bins} bins.")
    if bool((predictions.labels == predictions.labels[0]).all()):
        raise ValueError(f"{path} must hold samples of at least 2 classes, got {int(predictions.labels[0])} only.")


def _table(found: "Evaluation", metrics: "Mapping[str, Interval]", path: Path) -> Table:
    rows = tuple(
        (name, _shown(each.value), _limits(each), each.method, MEANING[name]) for name, each in metrics.items()
    )
    return Table(
        "evaluation",
        f"{path}: {found.num_samples:,} samples, {found.num_classes} classes, {found.num_bins} bins",
        ("metric", "value", f"{100 * found.level:g} % interval", "method", "what it is"),
        rows,
        notes=(_verdict(found), _parts(found)),
    )


def _verdict(found: "Evaluation") -> str:
    p = found.significance.p_value
    confidence, accuracy = (found.metrics[name].value for name in ("mean_confidence", "accuracy"))
    size = f"mean confidence {confidence:.4f}, accuracy {accuracy:.4f}"
    about = f"p = {p:.3g}, {found.significance.method}; {size}"
    if p > 1 - found.level:
        return f"The ECE is no larger than that of a calibrated classifier may well be ({about})."
    kind = "overconfident" if confidence > accuracy else "underconfident"
    return f"The ECE is larger than that of a calibrated classifier ({about}): on the whole {kind}."


def _parts(found: "Evaluation") -> str:
    parts = {name: float(part) for name, part in vars(found.parts).items()}
    return (
        f"Brier score = reliability {parts['reliability']:.4g} - resolution {parts['resolution']:.4g} "
        f"+ uncertainty {parts['uncertainty']:.4g} + within bins {parts['within']:.3g}."
    )


def _shown(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"


def _limits(found: "Interval") -> str:
    return "-" if found.value != found.value else f"{found.low:.4f} to {found.high:.4f}"
