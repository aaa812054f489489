import math
from dataclasses import replace

import pytest

from surefoot.data import DATASETS
from surefoot.runs.spec import Part, RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.correlation import pearson
from surefoot.studies.study import read_study
from surefoot_papers.too_sharp.mse import FIGURES
from surefoot_papers.too_sharp.mse.analysis import check, outcome
from surefoot_papers.too_sharp.mse.claims import NUM_CLASSES, left_of_peak

REPRODUCED, NOT_SEEN, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE


def run(
    loss: str, ece: list[float], sharpness: list[float], *, accuracy: float, confidence: float, lr: float = 0.1
) -> Trajectory:
    """One observation a step."""
    schedule = {"every": 1, "per_decade": 20}
    spec = {"optimizer": {"name": "gd", "lr": lr}, "budget": 9, "loss": {"name": loss}, "schedule": schedule}
    rows: list[Row] = [
        {
            "step": float(k),
            "train/ece": e,
            "train/ggn_sharpness": s,
            "train/accuracy": accuracy,
            "train/confidence": confidence,
            "test/accuracy": 0.5,
            "test/confidence": 0.2,
            "test/ece": 0.3,
        }
        for k, (e, s) in enumerate(zip(ece, sharpness, strict=True))
    ]
    return Trajectory.of(RunSpec.from_dict(spec), rows)


SQUARED = run("mse", [0.1, 0.3, 0.5, 0.6, 0.7], [1, 3, 5, 6, 7.5], accuracy=1.0, confidence=0.24)
PLAIN = run("cross_entropy", [0.1, 0.3, 0.2, 0.1, 0.01], [1, 9, 5, 2, 0.1], accuracy=1.0, confidence=0.99)


def test_left_of_peak() -> None:
    assert left_of_peak(SQUARED, "train/ece") == 1
    assert left_of_peak(PLAIN, "train/ece") == pytest.approx(1 / 30)


def test_claims_as_in_the_paper() -> None:
    verdicts = [claim.verdict for claim in outcome([SQUARED, PLAIN]).claims]
    assert verdicts == [*[REPRODUCED] * 6, INCONCLUSIVE]  # one learning rate has no interval


def test_claims_the_other_way_round() -> None:
    sure = run("mse", PLAIN_ECE, [9, 5, 2, 1, 0.1], accuracy=0.995, confidence=0.999)
    kept = run("cross_entropy", [0.1] * 5, [1.0] * 5, accuracy=0.9, confidence=0.99)
    verdicts = [claim.verdict for claim in outcome([sure, kept]).claims]
    assert verdicts == [*[NOT_SEEN] * 6, INCONCLUSIVE]
    none = [claim.verdict for claim in outcome([]).claims]
    assert none == [INCONCLUSIVE] * 6


def squared(signs: dict[float, float]) -> list[Trajectory]:
    """Runs at these learning rates whose ECE goes along with sharpness, more or less, or against it."""
    hump = [1.0, 2.0, 4.0, 7.0, 5.0, 3.0, 2.5, 2.0]
    bumps = [0.0, 0.3, 0.0, 0.1, 0.4, 0.0, 0.2, 0.0]
    return [
        run(
            "mse",
            [5 + sign * h + lr * b for h, b in zip(hump, bumps, strict=True)],
            hump,
            accuracy=1,
            confidence=0.24,
            lr=lr,
        )
        for lr, sign in signs.items()
    ]


def test_the_correlation_is_judged_as_in_the_coupling_study() -> None:
    def verdict(runs: list[Trajectory]) -> Verdict:
        return {claim.id: claim.verdict for claim in outcome(runs).claims}["correlates/gd"]

    assert verdict(squared({0.1: 0.2, 0.2: 0.2, 0.3: 0.2})) == REPRODUCED
    assert verdict(squared({0.1: -0.2, 0.2: -0.2, 0.3: -0.2})) == NOT_SEEN
    assert verdict(squared({0.1: 0.2, 0.2: -0.2, 0.3: 0.2})) == INCONCLUSIVE
    weak = [0.1, 0.3, 0.1, 0.2, 0.3, 0.2, 0.1, 0.2]
    small = [run("mse", weak, [1, 2, 4, 7, 5 + lr, 3, 2, 2], accuracy=1, confidence=0.2, lr=lr) for lr in (0.1, 0.2)]
    r = pearson(small[0], "train/ece", "train/ggn_sharpness")
    assert r is not None
    assert 0 < r < 0.5  # a small r counts, as it does there
    assert verdict(small) == REPRODUCED


PLAIN_ECE = [0.1, 0.3, 0.2, 0.1, 0.01]


def test_what_the_study_needs_is_checked() -> None:
    tree = {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": {"curvature": False}}
    with pytest.raises(ValueError, match="needs the observer curvature"):
        check(RunSpec.from_dict(tree))


def test_claims_carry_the_numbers_that_they_are_judged_by() -> None:
    claims = {claim.id: claim for claim in outcome([SQUARED, PLAIN]).claims}
    ece = claims["collapse/squared-error/train-ece"]
    assert (ece.estimate, ece.n, ece.unit, ece.measured) == (1.0, (1,), "runs", "in 1 of 1 runs")
    assert set(claims) >= {"underconfident", "collapse/cross-entropy/train-ece", "collapse/cross-entropy/sharpness"}


def test_the_number_of_classes_is_that_of_the_data() -> None:
    def claim(data: str, confidence: float) -> tuple[str, Verdict]:
        ended = run("mse", [0.1] * 5, [1.0] * 5, accuracy=1.0, confidence=confidence)
        ended = replace(ended, spec=replace(ended.spec, data=Part(data)))
        item = next(each for each in outcome([ended]).claims if each.id == "confidence-at-optimum")
        return item.statement, item.verdict

    near = "once it fits, its confidence is near e / (e + K - 1)"
    assert claim("digits", 0.24) == (f"{near} = 0.232 (within 0.05)", REPRODUCED)
    assert claim("cifar100-5k", 0.24) == (f"{near} = 0.027 (within 0.05)", NOT_SEEN)
    assert claim("cifar100-5k", 0.03)[1] is REPRODUCED
    assert claim("folder", 0.24) == (f"{near} (within 0.05)", INCONCLUSIVE)
    own = replace(SQUARED, spec=replace(SQUARED.spec, data=Part("folder")))
    assert "K of folder is unknown" in outcome([own]).notes[-1]
    assert not any("unknown" in note for note in outcome([SQUARED]).notes)
    for name in ("digits", "python-text"):
        assert NUM_CLASSES[name] == DATASETS[name](num_train=50).num_classes
    assert NUM_CLASSES.keys() == DATASETS.keys() - {"folder"}


def test_what_was_not_measured_is_left_out_and_not_0() -> None:
    blank = run("mse", [math.nan] * 5, [1.0] * 5, accuracy=1.0, confidence=math.nan)
    assert math.isnan(left_of_peak(blank, "train/ece"))
    claims = {claim.id: claim for claim in outcome([SQUARED, blank]).claims}
    assert claims["underconfident"].n == claims["collapse/squared-error/train-ece"].n == (1,)
    assert claims["collapse/squared-error/sharpness"].n == (2,)
    cells = outcome([blank]).tables[0].rows[0]
    assert cells[5:8] == (None, None, None)


def test_every_family_has_a_rule_in_the_study_s_file() -> None:
    families = {claim.family for claim in outcome([SQUARED, PLAIN]).claims}
    assert families == {rule.family for rule in read_study("mse").rules}


def test_the_figure_can_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    (figure,) = FIGURES
    assert figure.draw([SQUARED, PLAIN]).startswith("<svg")
