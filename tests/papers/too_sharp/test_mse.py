import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory, pearson
from surefoot_papers.too_sharp.mse.analysis import check, left_of_peak, outcome


def run(
    loss: str, ece: list[float], sharpness: list[float], *, accuracy: float, confidence: float, lr: float = 0.1
) -> Trajectory:
    """One observation a step."""
    schedule = {"every": 1, "per_decade": 20}
    spec = {"optimizer": {"name": "gd", "lr": lr}, "budget": 9, "loss": {"name": loss}, "schedule": schedule}
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
    told = [row[-1] for row in outcome([SQUARED, PLAIN])["claims"].rows]
    assert told == [*["holds"] * 6, "cannot tell at this scale"]  # one learning rate has no interval


def test_claims_the_other_way_round() -> None:
    sure = run("mse", PLAIN_ECE, [9, 5, 2, 1, 0.1], accuracy=0.995, confidence=0.999)
    kept = run("cross_entropy", [0.1] * 5, [1.0] * 5, accuracy=0.9, confidence=0.99)
    told = [row[-1] for row in outcome([sure, kept])["claims"].rows]
    assert told == [*["does not hold"] * 6, "cannot tell at this scale"]
    none = [row[-1] for row in outcome([])["claims"].rows]
    assert none == ["cannot tell at this scale"] * 6


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
    claim = "under squared error too ECE goes along with sharpness under gd: r > 0"

    def told(runs: list[Trajectory]) -> str:
        return str({row[0]: row[-1] for row in outcome(runs)["claims"].rows}[claim])

    assert told(squared({0.1: 0.2, 0.2: 0.2, 0.3: 0.2})) == "holds"
    assert told(squared({0.1: -0.2, 0.2: -0.2, 0.3: -0.2})) == "does not hold"
    assert told(squared({0.1: 0.2, 0.2: -0.2, 0.3: 0.2})) == "cannot tell at this scale"
    weak = [0.1, 0.3, 0.1, 0.2, 0.3, 0.2, 0.1, 0.2]
    small = [run("mse", weak, [1, 2, 4, 7, 5 + lr, 3, 2, 2], accuracy=1, confidence=0.2, lr=lr) for lr in (0.1, 0.2)]
    r = pearson(small[0].rows, "train/ece", "train/ggn_sharpness")
    assert r is not None
    assert 0 < r < 0.5  # a small r counts, as it does there
    assert told(small) == "holds"


PLAIN_ECE = [0.1, 0.3, 0.2, 0.1, 0.01]


def test_what_the_study_needs_is_checked() -> None:
    tree = {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": {"curvature": False}}
    with pytest.raises(ValueError, match="needs the observer curvature"):
        check(RunSpec.from_dict(tree))
