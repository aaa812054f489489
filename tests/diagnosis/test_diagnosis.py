"""Each rule on a case made for it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from surefoot.diagnosis.advice import advise
from surefoot.diagnosis.diagnosis import RULES, Finding, diagnose
from surefoot.diagnosis.evidence import evidence
from surefoot.diagnosis.facts import Facts, Repair, edge, run_facts
from surefoot.diagnosis.profile import Group, Profile, Sample
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory


def side(confidence: float, accuracy: float, *, count: int | None = 1000, split: str = "test", **parts: Any) -> Profile:
    whole = Group.of("all", count=count, confidence=confidence, accuracy=accuracy)
    return Profile(split=split, whole=whole, **{"ece": abs(confidence - accuracy), **parts})


def groups(*cells: tuple[str, int, float, float]) -> tuple[Group, ...]:
    return tuple(Group.of(n, count=c, confidence=p, accuracy=a, among=len(cells)) for n, c, p, a in cells)


def spec(optimizer: str = "gd", lr: float = 0.1, **keys: Any) -> RunSpec:
    return RunSpec.from_dict({"optimizer": {"name": optimizer, "lr": lr}, "budget": 30, **keys})


def rows(sharpness: Sequence[float], *, margins: Sequence[float] = (), ece: Sequence[float] = ()) -> list[Row]:
    return [
        {
            "step": 10 * k,
            "train/ggn_sharpness": value,
            "train/margin_min": margins[k] if margins else -1.0,
            "test/ece": ece[k] if ece else 0.2,
            "test/accuracy": 0.5,
            "test/confidence": 0.7,
        }
        for k, value in enumerate(sharpness)
    ]


def finding_of(rule: str, facts: Facts) -> Finding:
    finding = RULES[rule](facts)
    assert finding is not None
    assert finding.rule == rule
    return finding


def facts_of(spec: RunSpec, rows: Sequence[Row], **how: str) -> Facts:
    return run_facts(Trajectory.of(spec, rows), **how)


def test_overconfidence_has_its_size_and_interval() -> None:
    finding = finding_of("confidence", Facts("x", test=side(0.9, 0.7)))
    assert finding.verdict == "look"
    assert "overconfident" in finding.sentence
    assert "+20.0 points (95 % interval +17.2 to +22.9, n = 1,000)" in finding.sentence  # Wilson's: 0.671 to 0.728


def test_underconfidence_is_called_so() -> None:
    finding = finding_of("confidence", Facts("x", test=side(0.6, 0.7)))
    assert "underconfident" in finding.sentence
    assert "-10.0 points" in finding.sentence


def test_a_difference_within_noise_is_not_called_one() -> None:
    finding = finding_of("confidence", Facts("x", test=side(0.71, 0.7, p_value=0.4)))
    assert finding.verdict == "fine"
    assert "No over- or underconfidence is significant" in finding.sentence


def test_errors_that_cancel_are_seen_by_the_ece() -> None:
    finding = finding_of("confidence", Facts("x", test=side(0.7, 0.7, ece=0.2, p_value=0.001)))
    assert finding.verdict == "look"
    assert "cancels" in finding.sentence


def test_without_the_number_of_samples_nothing_is_decided() -> None:
    finding = finding_of("confidence", Facts("x", test=side(0.9, 0.7, count=None)))
    assert finding.verdict == "undecided"
    assert "no interval" in finding.sentence


def test_classes_that_are_off_are_named_largest_share_first() -> None:
    classes = groups(("0", 100, 0.9, 0.9), ("1", 100, 0.9, 0.5), ("2", 500, 0.9, 0.7), ("3", 5, 0.9, 0.6))
    finding = finding_of("classes", Facts("x", test=side(0.9, 0.7, classes=classes)))
    assert finding.numbers["off"] == ["2", "1"]  # 100 points of all samples, then 40; five samples prove nothing
    assert "predicted class 2: overconfident by 20.0 points" in finding.sentence


def test_confidences_that_are_off_are_named_with_their_side() -> None:
    bins = groups(("0.50-0.75", 200, 0.6, 0.9), ("0.75-1.00", 200, 0.95, 0.95))
    finding = finding_of("confidences", Facts("x", test=side(0.8, 0.9, bins=bins)))
    assert "confidences of 0.50-0.75: underconfident by 30.0 points" in finding.sentence
    fine = finding_of("confidences", Facts("x", test=side(0.8, 0.9, bins=bins[1:])))
    assert fine.verdict == "fine"


def test_training_against_test() -> None:
    finding = finding_of("train and test", Facts("x", test=side(0.9, 0.6), train=side(0.97, 1.0, split="train")))
    assert finding.verdict == "look"
    assert "confidence is lower on what the model was trained on" in finding.sentence
    assert "-3.0 points on training and +30.0 on test" in finding.sentence
    same = finding_of("train and test", Facts("x", test=side(0.9, 0.9), train=side(0.9, 0.905, split="train")))
    assert same.verdict == "fine"


def test_the_margin_tail_names_the_samples_that_carry_it() -> None:
    carriers = tuple(Sample(index, 0, 1, 0.9, -5.0, 0.3) for index in (17, 3))
    heavy = side(0.9, 0.7, tail=((0.01, 0.9),), carriers=carriers, num_wrong=300)
    finding = finding_of("margin tail", Facts("x", test=heavy))
    assert finding.verdict == "look"
    assert "worst 1% of the test samples carry 90%" in finding.sentence
    assert "first samples 17, 3; 300 of 1,000" in finding.sentence
    assert finding_of("margin tail", Facts("x", test=replace(heavy, tail=((0.01, 0.1),)))).verdict == "fine"


def test_confidently_wrong_samples_are_named() -> None:
    wrong = (Sample(4, 2, 7, 0.999, -6.0, 0.1),)
    finding = finding_of("wrong", Facts("x", test=side(0.9, 0.7, wrong=wrong)))
    assert "sample 4: 99.9% sure of 7, truth 2" in finding.sentence


@pytest.mark.parametrize(
    ("keys", "sharpness", "margins", "verdict", "phrase"),
    [
        ({}, [1.0, 25.0, 19.0], (), "look", "at the edge of stability (sharpness 0.95 of 2/lr)"),
        ({}, [1.0, 2.0, 3.0], (), "fine", "before interpolation"),
        (
            {},
            [1.0, 25.0, 2.0],
            (-1.0, 0.5, 0.6),
            "look",
            "interpolating, every training sample is right (first seen at step 10)",
        ),
        ({"batch_size": 50}, [1.0, 25.0, 19.0], (), "fine", "a guide only"),
        ({"optimizer": "adamw"}, [1.0, 25.0, 19.0], (), "undecided", "For adamw 2/lr is no limit of stability"),
    ],
)
def test_sharpness_against_two_over_the_learning_rate(
    keys: dict[str, Any], sharpness: list[float], margins: tuple[float, ...], verdict: str, phrase: str
) -> None:
    chosen = spec(keys.pop("optimizer", "gd"), **keys)
    finding = finding_of("sharpness", facts_of(chosen, rows(sharpness, margins=margins)))
    assert (finding.verdict, phrase in finding.sentence) == (verdict, True), finding.sentence
    assert f"at most {max(sharpness):.3g}" in finding.sentence


def test_a_limit_of_stability_needs_plain_gradient_descent() -> None:
    assert edge(spec(lr=0.1)) == pytest.approx(20)
    momentum = RunSpec.from_dict({"optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}, "budget": 3})
    assert edge(momentum) is None
    assert edge(spec("sam")) is None


def test_a_run_that_ended_early_says_so_and_gaps_are_counted() -> None:
    observed = rows([1.0, 2.0])
    observed[0]["test/ece"] = None
    facts = facts_of(spec(), observed, status="diverged", reason="loss is nan")
    assert finding_of("ended", facts).sentence == (
        "The run is diverged (loss is nan): what follows is of step 10, the last observed."
    )
    assert finding_of("gaps", facts).numbers == {"missing": 1}


def test_facts_that_do_not_suffice_give_no_finding() -> None:
    empty = diagnose(Facts("x"))
    assert empty.findings == ()
    assert empty.advice == ()


def test_the_number_of_samples_comes_from_the_bins() -> None:
    row: Row = {"step": 0, "test/confidence": 0.8, "test/accuracy": 0.5, "test/ece": 0.3}
    row |= {"test/bin_01_count": 0, "test/bin_01_confidence": None, "test/bin_01_right": 0}
    row |= {"test/bin_02_count": 40, "test/bin_02_confidence": 0.8, "test/bin_02_right": 20}
    facts = facts_of(spec(), [row])
    assert facts.test is not None
    assert facts.test.whole.count == 40
    assert [(each.name, each.accuracy) for each in facts.test.bins] == [("0.50-1.00", 0.5)]


def test_a_repair_is_advised_only_where_the_intervals_are_apart() -> None:
    facts = Facts("x", test=side(0.9, 0.7), repair=Repair("temperature", (0.2, 0.18, 0.22), (0.02, 0.0, 0.04), "how"))
    assert advise(facts)[0].kind == "try"
    assert advise(facts)[0].expected == pytest.approx(-0.18)
    near = replace(facts, repair=Repair("temperature", (0.2, 0.1, 0.3), (0.15, 0.05, 0.25), "how"))
    assert [each.kind for each in advise(near) if "temperature" in each.sentence] == ["undecided"]


def test_a_calibrated_model_is_left_alone() -> None:
    given = advise(Facts("x", test=side(0.7, 0.7, p_value=0.5)))
    assert [each.kind for each in given] == ["nothing"]


def test_what_is_advised_to_an_overconfident_run_comes_from_the_results() -> None:
    facts = facts_of(spec("gd"), rows([1.0, 2.0, 3.0], margins=(-1.0, 0.5, 0.6)))
    best = next(item for item in evidence() if item.optimizer == "gd" and item.kind == "stop" and item.ece.decided)
    first = advise(facts)[0]
    assert first.kind == "try"
    assert str(best.ece) in first.sentence
    assert first.source == f"results/{best.source}"
    expected = [each.expected for each in advise(facts) if each.kind == "try"]
    assert expected == sorted(expected, key=lambda value: value or 0.0)


def test_a_run_before_interpolation_is_not_told_to_stop_there() -> None:
    assert not any("Stop" in each.sentence for each in advise(facts_of(spec("gd"), rows([1.0, 2.0, 3.0]))))


def test_the_results_do_not_decide_for_an_underconfident_model() -> None:
    assert "do not decide" in advise(Facts("x", test=side(0.6, 0.7)))[-1].sentence


def test_an_earlier_step_picked_on_test_samples_is_not_decided() -> None:
    observed = rows([1.0, 2.0, 3.0], ece=(0.3, 0.05, 0.2))
    early = facts_of(spec("muon"), observed)
    finding = next(each for each in advise(early) if "End at step 10" in each.sentence)
    assert finding.kind == "undecided"
    assert finding.expected == pytest.approx(-0.15)
    held = [{**row, "validation/ece": row["test/ece"], "validation/accuracy": 0.5} for row in observed]
    finding = next(each for each in advise(facts_of(spec("muon"), held)) if "End at step 10" in each.sentence)
    assert finding.kind == "try"


def test_a_record_is_json_without_nan() -> None:
    record = diagnose(facts_of(spec(), rows([1.0, 2.0]))).record()
    assert json.loads(json.dumps(record, allow_nan=False))["subject"] == "gd lr=0.1 seed=0"
