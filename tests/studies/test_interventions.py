import math

import pytest
from scipy.stats import ttest_ind

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.interventions import check, mean_ece, outcome, peak_ece, steps_to_small, welch
from surefoot.table import Estimate


def trajectory(optimizer: dict[str, object], ece: list[float], seed: int = 0) -> Trajectory:
    spec = RunSpec.from_dict({"optimizer": {"lr": 0.1, **optimizer}, "budget": 9, "seed": seed})
    rows = [
        {"step": 10.0 * k, "train/ece": e, "test/ece": 0.1, "test/accuracy": 0.5, "train/ggn_sharpness": 1.0 + k}
        for k, e in enumerate(ece)
    ]
    return Trajectory(spec, rows)


def test_the_numbers_of_a_run() -> None:
    run = trajectory({"name": "gd"}, [0.01, 0.3, 0.1, 0.015, 0.05])
    assert peak_ece(run) == 0.3
    assert mean_ece(run) == pytest.approx((0.155 + 0.2 + 0.0575 + 0.0325) / 4)
    assert steps_to_small(run) == 30  # the calibration before the peak does not count
    assert steps_to_small(trajectory({"name": "gd"}, [0.01, 0.3])) is None


def test_welch_is_scipys() -> None:
    a, b = [0.1, 0.2, 0.25], [0.3, 0.5, 0.4, 0.45]
    found = welch(Estimate.of(a), Estimate.of(b))
    theirs = ttest_ind(a, b, equal_var=False).confidence_interval()
    assert found is not None
    assert found[1:] == pytest.approx((theirs.low, theirs.high))
    assert welch(Estimate.of([0.1]), Estimate.of(b)) is None
    assert welch(Estimate.of([1.0, 1.0]), Estimate.of([0.5, 0.5])) == (0.5, 0.5, 0.5)


def runs(sam: float, muon: float, bulk: float) -> list[Trajectory]:
    found = []
    for seed in range(3):
        jitter = 0.001 * seed
        for optimizer, height in (
            ({"name": "gd"}, 0.3),
            ({"name": "sam", "rho": 0.1}, sam),
            ({"name": "muon"}, muon),
            ({"name": "bulk_sgd", "k": 1}, bulk),
            ({"name": "bulk_sgd", "k": 3}, bulk),
        ):
            found.append(trajectory(optimizer, [0.0, height + jitter, height + jitter, 0.0], seed))
    return found


def verdicts(found: list[Trajectory]) -> dict[str, str]:
    return {str(row[0]): str(row[-1]) for row in outcome(found, compare_with_paper=False)["claims"].rows}


def test_the_papers_picture_and_its_opposite() -> None:
    told = verdicts(runs(sam=0.3, muon=0.1, bulk=0.2))
    assert told["hypothesis 1, flat minima, all its optimizers together"] == "does not hold"  # no difference
    assert told["hypothesis 2, directional flatness, all its optimizers together"] == "holds"
    assert told["bulk_sgd k=3 lowers training ECE against gd (hypothesis 2, directional flatness)"] == "holds"
    told = verdicts(runs(sam=0.2, muon=0.4, bulk=0.2))
    assert told["hypothesis 1, flat minima, all its optimizers together"] == "holds"
    assert "disagree" in told["hypothesis 2, directional flatness, all its optimizers together"]
    assert verdicts(runs(0.3, 0.3, 0.3)[:5])[
        "muon lowers training ECE against gd (hypothesis 2, directional flatness)"
    ] == ("cannot tell at this scale")


def test_the_profile_has_a_row_per_variant_and_learning_rate() -> None:
    profile, differences = outcome(runs(0.3, 0.1, 0.2), compare_with_paper=False)["tables"]
    assert [row[0] for row in profile.rows] == ["gd", "bulk_sgd k=1", "bulk_sgd k=3", "muon", "sam rho=0.1"]
    assert math.isclose(profile.rows[0][5].mean, 4.0)
    assert len(differences.rows) == 4


def test_what_the_study_needs_is_checked() -> None:
    spec = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": {"curvature": False}})
    with pytest.raises(ValueError, match="needs the observer curvature"):
        check(spec)
