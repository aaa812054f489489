"""A diagnosis: what is wrong with a model's confidence, in plain sentences with numbers, and what to try next."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from surefoot.diagnosis.advice import Advice, advise
from surefoot.diagnosis.facts import Facts, edge, series
from surefoot.diagnosis.profile import Group
from surefoot.runs.trajectory import Trajectory
from surefoot.table import json_ready

Verdict = Literal["fine", "look", "undecided"]
NEAR_EDGE = 0.9  # of 2/lr: as in the study of certificates
_ALPHA = 0.05
_MARKS = {"fine": "ok", "look": "!!", "undecided": "??", "try": "->", "nothing": "ok"}
_NAMED = 3  # classes, bins or samples named in a sentence


@dataclass(frozen=True)
class Finding:
    """What one rule says, with the numbers that it says it by."""

    rule: str
    verdict: Verdict
    sentence: str
    numbers: Mapping[str, float | int | str | list[int] | list[str] | None]


@dataclass(frozen=True)
class Diagnosis:
    """Findings in the order of the rules, and advice, the best supported first."""

    subject: str
    findings: tuple[Finding, ...]
    advice: tuple[Advice, ...]

    def record(self) -> dict[str, Any]:
        """As JSON can hold it; what is not finite is null."""
        cleaned: dict[str, Any] = json_ready(asdict(self))
        return cleaned

    def __str__(self) -> str:
        """The diagnosis as lines of text, each with a mark: ok, !! look at it, ?? undecided, -> try it."""
        lines = [self.subject]
        lines += [f"  {_MARKS[each.verdict]} {each.sentence}" for each in self.findings]
        if not self.findings:
            lines.append("  ?? Nothing was observed that a diagnosis could go by.")
        if self.advice:
            lines.append("Next")
            lines += [f"  {_MARKS[each.kind]} {each.sentence} [{each.source}]" for each in self.advice]
        return "\n".join(lines)


def diagnose(facts: Facts) -> Diagnosis:
    """Apply every rule that the facts suffice for."""
    findings = (rule(facts) for rule in RULES.values())
    return Diagnosis(facts.subject, tuple(each for each in findings if each is not None), advise(facts))


def _ended(facts: Facts) -> Finding | None:
    if facts.run is None or facts.status == "done":
        return None
    last = int(facts.run.steps[-1]) if len(facts.run) else None
    seen = f"what follows is of step {last}, the last observed" if last is not None else "nothing was observed"
    why = f" ({facts.reason})" if facts.reason else ""
    return Finding("ended", "look", f"The run is {facts.status}{why}: {seen}.", {"step": last})


def _confidence(facts: Facts) -> Finding | None:
    if facts.test is None:
        return None
    test, whole = facts.test, facts.test.whole
    numbers: dict[str, Any] = {"gap": whole.gap, "low": whole.low, "high": whole.high, "n": whole.count}
    numbers |= {"accuracy": whole.accuracy, "confidence": whole.confidence, "ece": test.ece, "p_value": test.p_value}
    size = (
        f"on average it is {whole.confidence:.1%} sure and {whole.accuracy:.1%} right, a difference of "
        f"{100 * whole.gap:+.1f} points"
    )
    if whole.count is None:
        which = "more sure than right" if whole.gap > 0 else "less sure than right"
        sentence = (
            f"On test samples the model is {which}: {size}, ECE {test.ece:.3f}. The rows do not hold the number of "
            "samples, so there is no interval and nothing is decided; the observer `reliability` adds it."
        )
        return Finding("confidence", "undecided", sentence, numbers)
    size += f" (95 % interval {100 * whole.low:+.1f} to {100 * whole.high:+.1f}, n = {whole.count:,})"
    ece = f"ECE {test.ece:.3f}"
    if test.ece_limits:
        ece += f" [{test.ece_limits[0]:.3f}, {test.ece_limits[1]:.3f}]"
    if whole.lean == "undecided":
        if test.p_value is not None and test.p_value <= _ALPHA:
            sentence = (
                "The model is overconfident on some test samples and underconfident on others (ECE larger than a "
                f"calibrated model's, p = {test.p_value:.2g}), which cancels: {size}, {ece}."
            )
            return Finding("confidence", "look", sentence, numbers)
        p = "" if test.p_value is None else f", p = {test.p_value:.2g} under perfect calibration"
        return Finding(
            "confidence",
            "fine",
            f"No over- or underconfidence is significant on test samples: {size}, {ece}{p}.",
            numbers,
        )
    sentence = f"The model is {whole.lean}confident on test samples: {size}, {ece}."
    return Finding("confidence", "look", sentence, numbers)


def _classes(facts: Facts) -> Finding | None:
    if facts.test is None or not facts.test.classes:
        return None
    return _parts("classes", facts.test.classes, "predicted class", "predicted classes")


def _confidences(facts: Facts) -> Finding | None:
    if facts.test is None or not facts.test.bins:
        return None
    return _parts("confidences", facts.test.bins, "confidences of", "bins of the confidence")


def _parts(rule: str, groups: Sequence[Group], one: str, many: str) -> Finding:
    """Which groups are off beyond doubt, the largest share of the total gap first."""
    off = [each for each in groups if each.lean != "undecided"]
    off.sort(key=lambda each: -abs(each.gap) * (each.count if each.count is not None else 1))
    numbers: dict[str, Any] = {"off": [each.name for each in off], "of": len(groups)}
    if not off:
        sentence = f"None of the {len(groups)} {many} is significantly miscalibrated by itself."
        return Finding(rule, "fine", sentence, numbers)
    named = "; ".join(
        f"{one} {each.name}: {each.lean}confident by {100 * abs(each.gap):.1f} points "
        f"({100 * min(abs(each.low), abs(each.high)):.1f} to {100 * max(abs(each.low), abs(each.high)):.1f}, "
        f"n = {each.count:,})"
        for each in off[:_NAMED]
    )
    worst = "Worst" if len(off) > 1 else "Here"
    sentence = (
        f"Off beyond doubt: {len(off)} of {len(groups)} {many} (intervals hold for all at once). {worst}: {named}."
    )
    return Finding(rule, "look", sentence, numbers)


def _splits(facts: Facts) -> Finding | None:
    if facts.test is None or facts.train is None:
        return None
    train, test = facts.train, facts.test
    numbers: dict[str, Any] = {
        f"{side.split}_{name}": value
        for side in (train, test)
        for name, value in (("gap", side.whole.gap), ("accuracy", side.whole.accuracy), ("ece", side.ece))
    }
    size = (
        f"confidence - accuracy is {100 * train.whole.gap:+.1f} points on training and {100 * test.whole.gap:+.1f} on "
        f"test samples, accuracy {train.whole.accuracy:.1%} and {test.whole.accuracy:.1%}, ECE {train.ece:.3f} and "
        f"{test.ece:.3f}"
    )
    sides = (train.whole, test.whole)
    if any(each.count is None for each in sides):
        return Finding("train and test", "undecided", f"Training against test, without intervals: {size}.", numbers)
    apart = train.whole.high < test.whole.low or test.whole.high < train.whole.low
    if not apart:
        return Finding(
            "train and test", "fine", f"Training and test samples do not differ beyond doubt: {size}.", numbers
        )
    lower = "lower" if train.whole.gap < test.whole.gap else "higher"
    sentence = f"Beside accuracy, confidence is {lower} on what the model was trained on: {size}."
    return Finding("train and test", "look", sentence, numbers)


def _tail(facts: Facts) -> Finding | None:
    side = facts.test
    if side is None or not side.tail:
        return _tail_of_rows(facts)
    part, share = side.tail[0]
    names = [each.index for each in side.carriers[:5]]
    numbers: dict[str, Any] = {"part": part, "share": share, "samples": names}
    wrong = "" if side.num_wrong is None else f"; {side.num_wrong:,} of {side.whole.count:,} samples are wrong"
    sentence = (
        f"The worst {part:.0%} of the test samples carry {share:.0%} of the margin tail, mean exp(-margin), on which "
        f"the bounds of ECE and sharpness rest: first samples {', '.join(map(str, names))}{wrong}."
    )
    return Finding("margin tail", "look" if share > 0.5 else "fine", sentence, numbers)


def _tail_of_rows(facts: Facts) -> Finding | None:
    if facts.run is None:
        return None
    keys = ("log_margin_moment", "margin_min", "margin_q50", "tail_share_10")
    moment, smallest, middle, share = (facts.run.last(f"train/{key}") for key in keys)
    if not all(map(math.isfinite, (moment, smallest, middle))):
        return None
    counted = math.isfinite(share)
    carried = f"; the worst 10 % of them carry {share:.0%} of it" if counted else ""
    sentence = (
        f"On training samples the margins go from {smallest:.3g} up, half of them beyond {middle:.3g}; the margin "
        f"tail, mean exp(-margin), is exp({moment:.3g}){carried}. Which samples carry it, the rows do not hold."
    )
    numbers = {"log_margin_moment": moment, "smallest": smallest, "median": middle, "share_10": share}
    verdict: Verdict = "undecided" if not counted else "look" if share > 0.5 else "fine"
    return Finding("margin tail", verdict, sentence, numbers)


def _wrong(facts: Facts) -> Finding | None:
    if facts.test is None or not facts.test.wrong:
        return None
    sure = facts.test.wrong[:_NAMED]
    named = "; ".join(f"sample {s.index}: {s.confidence:.1%} sure of {s.predicted}, truth {s.label}" for s in sure)
    sentence = f"Most confidently wrong: {named}."
    return Finding("wrong", "look", sentence, {"samples": [each.index for each in sure]})


def _sharpness(facts: Facts) -> Finding | None:
    measured = series(facts.run, "train/ggn_sharpness")
    if facts.run is None or not measured:
        return None
    spec = facts.run.spec
    (last, now), (at, peak) = measured[-1], max(measured, key=lambda item: item[1])
    limit = edge(spec)
    stage = regime(facts.run)
    size = f"The sharpness of the training loss is {now:.3g} at step {last} and was at most {peak:.3g}, at step {at}"
    numbers: dict[str, Any] = {
        "sharpness": now,
        "peak": peak,
        "step_of_peak": at,
        "two_over_lr": limit,
        "regime": stage,
    }
    if limit is None:
        sentence = f"{size}. For {spec.optimizer.name} 2/lr is no limit of stability. Regime: {stage}."
        return Finding("sharpness", "undecided", sentence, numbers)
    whole = spec.batch_size == "full"
    caveat = "" if whole else " (a limit for full batches: with batches it is a guide only)"
    near = peak >= NEAR_EDGE * limit
    share = f"its peak is {peak / limit:.2f} of 2/lr = {limit:.3g}{caveat}"
    sentence = f"{size}; {share}. Regime: {stage}."
    return Finding("sharpness", "look" if near and whole else "fine", sentence, numbers)


def regime(run: Trajectory) -> str:
    """Where the run is at its last observation: interpolating, at the edge of stability, or before."""
    if not len(run):
        return "not observed"
    if run.last("train/margin_min") > 0:
        return f"interpolating, every training sample is right (first seen at step {run.interpolated})"
    limit, now = edge(run.spec), run.last("train/ggn_sharpness")
    if limit is not None and run.spec.batch_size == "full" and now >= NEAR_EDGE * limit:
        return f"at the edge of stability (sharpness {now / limit:.2f} of 2/lr)"
    return "before interpolation, some training samples are wrong"


def _gaps(facts: Facts) -> Finding | None:
    if facts.run is None:
        return None
    keys = [f"{split}/ece" for split in ("train", "test", "validation")]
    missing = sum(int(np.isnan(facts.run[key]).sum()) for key in keys if key in facts.run)
    if not missing:
        return None
    sentence = f"{missing} values of ECE along the run are not numbers and are left out."
    return Finding("gaps", "look", sentence, {"missing": missing})


RULES: dict[str, Callable[[Facts], Finding | None]] = {
    "ended": _ended,
    "confidence": _confidence,
    "classes": _classes,
    "confidences": _confidences,
    "train and test": _splits,
    "margin tail": _tail,
    "wrong": _wrong,
    "sharpness": _sharpness,
    "gaps": _gaps,
}
