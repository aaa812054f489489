"""The page of predictions in a file."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from surefoot.diagnosis.diagnosis import Diagnosis
from surefoot.diagnosis.profile import Group, Profile, Sample
from surefoot.report import charts
from surefoot.report.page import Chart, Page, Section, findings
from surefoot.table import Table

if TYPE_CHECKING:
    from surefoot.metrics import ReliabilityBin


def evaluation_page(
    *,
    subject: str,
    diagnosis: Diagnosis,
    profile: Profile,
    metrics: Table,
    diagram: "Sequence[ReliabilityBin]",
    after: "Sequence[ReliabilityBin] | None",
    repaired: Table | None,
    how: str,
    level: float,
    command: str,
) -> Page:
    """Diagnosis, reliability diagram and histogram, before and after a temperature, classes, samples, all metrics.

    `how` says how the temperature was fitted, or why there is none.
    """
    sections = [
        Section("Diagnosis", findings=findings(diagnosis)),
        Section("How sure, how right", charts=diagram_charts("before", diagram, level=level)),
        Section(
            "Before and after a temperature",
            text=(f"One number divides all logits, {how}." if after else f"There is no temperature to show: {how}",),
            tables=() if repaired is None else (repaired,),
            charts=() if after is None else diagram_charts("after", after, level=level),
        ),
        Section("Class by class", tables=(class_table(profile.classes, level=level),)),
        Section(
            "Samples to look at",
            tables=(
                sample_table("wrong", "The most confidently wrong samples", profile.wrong),
                sample_table(
                    "carriers", "The samples with the smallest margins, which carry the tail", profile.carriers
                ),
            ),
        ),
        Section("Every number", tables=(metrics,)),
    ]
    return Page(
        title=f"How sure and how right: {subject}",
        subtitle=f"{profile.whole.count:,} samples, {len(profile.classes)} classes predicted",
        sections=tuple(sections),
        origin=(f"Made by: {command}",),
        data={"num_bins": len(diagram), "z": -NormalDist().inv_cdf((1 - level) / 2)},
    )


def diagram_charts(name: str, bins: "Sequence[ReliabilityBin]", *, level: float) -> tuple[Chart, ...]:
    """The reliability diagram and the histogram of fixed bins."""
    numbers = [
        number
        for k, each in enumerate(bins)
        if each.count
        for number in (k, each.count, 1e4 * each.confidence, round(each.accuracy * each.count))
    ]
    source = {"kind": "bins", "values": numbers}
    return (
        Chart(
            f"reliability-{name}",
            charts.reliability(),
            source,
            f"Accuracy ({100 * level:g} % Wilson intervals) against confidence, {name}: on the diagonal the model is "
            "as right as it is sure.",
        ),
        Chart(f"confidences-{name}", charts.histogram(), source, f"How often the model is how sure, {name}."),
    )


def class_table(classes: Sequence[Group], *, level: float) -> Table:
    """How sure and how right, by predicted class."""
    rows = tuple(
        (
            each.name,
            each.count,
            f"{each.confidence:.3f}",
            f"{each.accuracy:.3f}",
            f"{each.gap:+.3f} [{each.low:+.3f}, {each.high:+.3f}]",
            {"over": "overconfident", "under": "underconfident", "undecided": "inconclusive"}[each.lean],
        )
        for each in classes
    )
    note = f"By predicted class. The {100 * level:g} % intervals hold for all classes at once (Wilson, Bonferroni)."
    columns = ("class", "n", "mean confidence", "accuracy", "difference", "verdict")
    return Table("classes", "Confidence and accuracy of each predicted class", columns, rows, (note,))


def sample_table(name: str, title: str, samples: Sequence[Sample]) -> Table:
    """Samples by their place in the file, counted from 0."""
    rows = tuple(
        (s.index, s.label, s.predicted, f"{s.confidence:.4f}", f"{s.margin:.3g}", f"{s.share:.2%}") for s in samples
    )
    columns = ("sample", "true class", "predicted", "confidence", "margin (logits)", "share of mean exp(-margin)")
    return Table(name, title, columns, rows, ("Counted from 0, in the order of the file.",))
