"""What to try next, by what was measured on the samples themselves and by what the committed results say."""

import math
from dataclasses import dataclass
from typing import Literal

from surefoot.diagnosis.evidence import Evidence, evidence
from surefoot.diagnosis.facts import Facts, series

Kind = Literal["try", "undecided", "nothing"]


@dataclass(frozen=True)
class Advice:
    """Something to try, what it is expected to do to test ECE, and where that number comes from."""

    kind: Kind
    sentence: str
    expected: float | None  # change of test ECE
    source: str


def advise(facts: Facts) -> tuple[Advice, ...]:
    """What is supported by an interval that leaves 0 out, largest effect first, then what is not decided."""
    if facts.test is None:
        return ()
    lean = facts.test.whole.lean
    p_value = facts.test.p_value
    if lean == "undecided" and p_value is not None and p_value > 0.05:
        sentence = (
            f"Nothing to repair is seen: the ECE is one that a calibrated model may well have (p = {p_value:.2g})."
        )
        return (Advice("nothing", sentence, None, facts.subject),)
    advice = [*_repair(facts), *_own_course(facts)]
    if lean == "over" or (facts.test.whole.count is None and facts.test.whole.gap > 0):
        advice += _from_results(facts)
    else:
        sentence = "The committed results are of overconfident models: they do not decide what helps this one."
        advice.append(Advice("undecided", sentence, None, "results/"))
    return (
        *sorted((each for each in advice if each.kind == "try"), key=_expected),
        *(each for each in advice if each.kind != "try"),
    )


def _repair(facts: Facts) -> list[Advice]:
    if facts.repair is None:
        return []
    name, before, after = facts.repair.name, facts.repair.before, facts.repair.after
    size = f"ECE {before[0]:.3f} [{before[1]:.3f}, {before[2]:.3f}] -> {after[0]:.3f} [{after[1]:.3f}, {after[2]:.3f}]"
    if after[2] < before[1]:
        sentence = f"Fit the post-hoc map `{name}` (surefoot calibrate): {size} on these samples, {facts.repair.how}."
        return [Advice("try", sentence, after[0] - before[0], facts.subject)]
    sentence = f"Whether the post-hoc map `{name}` helps is not decided: {size} on these samples, {facts.repair.how}."
    return [Advice("undecided", sentence, after[0] - before[0], facts.subject)]


def _own_course(facts: Facts) -> list[Advice]:
    """The step at which the run itself was better: by validation samples where there are any, else no proof."""
    split = "validation" if facts.run is not None and "validation/ece" in facts.run else "test"
    course = series(facts.run, f"{split}/ece")
    accuracy = dict(series(facts.run, f"{split}/accuracy"))
    if len(course) < 3 or not accuracy:
        return []
    final = accuracy.get(course[-1][0], math.nan)
    near = [item for item in course if accuracy.get(item[0], math.nan) >= final - 0.01]  # not at the price of accuracy
    if not near:
        return []
    step, lowest = min(near, key=lambda item: item[1])
    if step == course[-1][0]:
        return []
    sentence = (
        f"End at step {step}: {split} ECE was {lowest:.3f} there and is {course[-1][1]:.3f} at the end, accuracy "
        f"{accuracy[step]:.3f} and {final:.3f}."
    )
    if split == "test":
        sentence += (
            " Picked on the test samples themselves, so it promises too much: hold out validation samples to decide."
        )
    change = lowest - course[-1][1]
    return [Advice("undecided" if split == "test" else "try", sentence, change, f"the {split} rows of this run")]


def _from_results(facts: Facts) -> list[Advice]:
    if facts.run is None:
        return [_pooled([item for item in evidence() if item.kind == kind]) for kind in ("stop", "optimizer")]
    optimizer = facts.run.optimizer
    fits = [item for item in evidence() if item.optimizer == optimizer]
    if not (facts.run["train/margin_min"][:-1] > 0).any():
        fits = [item for item in fits if item.kind != "stop"]  # it has not come that far
    helping = [item for item in fits if item.ece.decided and item.ece.mean < 0]
    given = [
        Advice("try", f"{_capital(item.change)}: {_size(item)}; {item.how}.", item.ece.mean, f"results/{item.source}")
        for item in helping
    ]
    helpful = {each.change for each in helping}
    others = [item for item in fits if item.kind == "optimizer" and not item.ece.decided and item.change not in helpful]
    if others:
        names = ", ".join(dict.fromkeys(item.to for item in others))
        best = min(others, key=lambda item: item.ece.mean)
        sentence = (
            f"Whether another optimizer than {optimizer} helps ({names}) the committed results do not decide: the "
            f"intervals contain 0. Nearest: {best.to}, {_size(best)}; {best.how}."
        )
        given.append(Advice("undecided", sentence, None, _sources(others)))
    if not given:
        sentence = f"The committed results say nothing on what to change in runs of {optimizer}."
        given.append(Advice("undecided", sentence, None, "results/"))
    return given


def _pooled(items: list[Evidence]) -> Advice:
    """All evidence of one kind, for predictions of which nobody knows how they came about."""
    decided = [item.ece.mean for item in items if item.ece.decided]
    helping = [mean for mean in decided if mean < 0]
    what = "Ending training when every training sample is right" if items[0].kind == "stop" else "Another optimizer"
    count = f"{len(helping)} of {len(items)} comparisons (optimizer and study)"
    if 2 * len(helping) <= len(items):
        sentence = f"{what}: the committed results do not decide, test ECE falls beyond doubt in {count} only."
        return Advice("undecided", sentence, None, _sources(items))
    sentence = (
        f"{what} lowered test ECE beyond doubt in {count}, by {-max(helping):.3f} to {-min(helping):.3f}, if this "
        "model was trained on after it; the file does not say."
    )
    return Advice("try", sentence, max(helping), _sources(items))


def _expected(advice: Advice) -> float:
    return math.inf if advice.expected is None else advice.expected


def _size(item: Evidence) -> str:
    return f"test ECE {item.ece}, test accuracy {item.accuracy}"


def _sources(items: list[Evidence]) -> str:
    return ", ".join(dict.fromkeys(f"results/{item.source}" for item in items))


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
