import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.mse import check, left_of_peak, outcome


def run(loss: str, ece: list[float], sharpness: list[float], *, accuracy: float, confidence: float) -> Trajectory:
    spec = {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "loss": {"name": loss}}
    rows: list[dict[str, float | None]] = [
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
    return Trajectory(RunSpec.from_dict(spec), rows)


SQUARED = run("mse", [0.1, 0.3, 0.5, 0.6, 0.7], [1, 3, 5, 6, 7.5], accuracy=1.0, confidence=0.24)
PLAIN = run("cross_entropy", [0.1, 0.3, 0.2, 0.1, 0.01], [1, 9, 5, 2, 0.1], accuracy=1.0, confidence=0.99)


def test_left_of_peak() -> None:
    assert left_of_peak(SQUARED, "train/ece") == 1
    assert left_of_peak(PLAIN, "train/ece") == pytest.approx(1 / 30)


def test_claims_as_in_the_paper() -> None:
    assert [row[-1] for row in outcome([SQUARED, PLAIN], compare_with_paper=False)["claims"].rows] == ["holds"] * 7


def test_claims_the_other_way_round() -> None:
    sure = run("mse", PLAIN_ECE, [9, 5, 2, 1, 0.1], accuracy=0.995, confidence=0.999)
    kept = run("cross_entropy", [0.1] * 5, [1.0] * 5, accuracy=0.9, confidence=0.99)
    told = [row[-1] for row in outcome([sure, kept], compare_with_paper=False)["claims"].rows]
    assert told == ["does not hold"] * 7
    none = [row[-1] for row in outcome([], compare_with_paper=False)["claims"].rows]
    assert none == ["cannot tell at this scale"] * 7


PLAIN_ECE = [0.1, 0.3, 0.2, 0.1, 0.01]


def test_what_the_study_needs_is_checked() -> None:
    tree = {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": {"curvature": False}}
    with pytest.raises(ValueError, match="needs the observer curvature"):
        check(RunSpec.from_dict(tree))
