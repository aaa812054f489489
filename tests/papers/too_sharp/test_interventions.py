import math
from dataclasses import replace

import pytest
from scipy.stats import ttest_ind

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.difference import Difference, difference, welch
from surefoot.studies.paired import UNSURE, both
from surefoot.table import Estimate
from surefoot_papers.too_sharp.interventions.analysis import check, outcome
from surefoot_papers.too_sharp.interventions.claims import higher, lower, not_lower
from surefoot_papers.too_sharp.interventions.profile import decay, mean_ece, peak_ece, rises, steps_to_small


def trajectory(optimizer: dict[str, object], ece: list[float], seed: int = 0, **changed: list[float]) -> Trajectory:
    """Observations every ten steps; `changed` are the values of other quantities."""
    spec = RunSpec.from_dict(
        {"optimizer": {"lr": 0.1, **optimizer}, "budget": 9, "seed": seed, "schedule": {"every": 10, "per_decade": 0}}
    )
    values = {
        "test_ece": [0.1] * len(ece),
        "test_accuracy": [0.5] * len(ece),
        "train_ggn_sharpness": [1.0 + k for k in range(len(ece))],
        "train_nll": [2.0 - 0.1 * k for k in range(len(ece))],
        "train_margin_mean": [float(k) for k in range(len(ece))],
        "train_ece": ece,
        **changed,
    }
    rows = [
        {"step": 10.0 * k, **{key.replace("_", "/", 1): column[k] for key, column in values.items()}}
        for k in range(len(ece))
    ]
    return Trajectory(spec, rows)


def test_the_numbers_of_a_run() -> None:
    run = trajectory({"name": "gd"}, [0.01, 0.3, 0.1, 0.015, 0.05])
    assert peak_ece(run) == 0.3
    assert mean_ece(run) == pytest.approx((0.155 + 0.2 + 0.0575 + 0.0325) / 4)
    assert steps_to_small(run) == 30  # the calibration before the peak does not count
    assert decay(run) == 20
    assert steps_to_small(trajectory({"name": "gd"}, [0.01, 0.3])) is None
    assert decay(trajectory({"name": "gd"}, [0.01, 0.3])) is None


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
    return {str(row[0]): str(row[-1]) for row in outcome(found)["claims"].rows}


def test_the_papers_picture_and_its_opposite() -> None:
    told = verdicts(runs(sam=0.3, muon=0.1, bulk=0.2))
    assert told["hypothesis 1, flat minima, all its optimizers together"] == "does not hold"  # no difference
    assert told["hypothesis 2, directional flatness, all its optimizers together"] == "holds"
    assert told["bulk_sgd k=3 lowers training ECE against gd (hypothesis 2, directional flatness)"] == "holds"
    told = verdicts(runs(sam=0.2, muon=0.4, bulk=0.2))
    assert told["hypothesis 1, flat minima, all its optimizers together"] == "holds"
    assert told["hypothesis 2, directional flatness, all its optimizers together"] == "does not hold"  # Muon's
    assert verdicts(runs(0.3, 0.3, 0.3)[:5])[
        "muon lowers training ECE against gd (hypothesis 2, directional flatness)"
    ] == ("cannot tell at this scale")


def test_the_profile_has_a_row_per_variant_and_learning_rate() -> None:
    profile, differences = outcome(runs(0.3, 0.1, 0.2))["tables"]
    assert [row[0] for row in profile.rows] == ["gd", "bulk_sgd k=1", "bulk_sgd k=3", "muon", "sam rho=0.1"]
    assert math.isclose(profile.rows[0][5].mean, 4.0)
    assert len(differences.rows) == 4
    assert differences.rows[0][1].endswith("(n=3)")


def test_every_interval_carries_its_n() -> None:
    found = runs(0.3, 0.1, 0.2)
    for seed in range(3):
        found.append(trajectory({"name": "muon", "lr": 0.02}, [0.0, 0.1, 0.1, 0.0], seed))  # a learning rate gd lacks
    shown = outcome(found)
    for table in (shown["tables"][1], shown["claims"]):
        for cell in (str(cell) for row in table.rows for cell in row):
            assert cell.count("[") <= cell.count("(n="), cell
    muon = next(row for row in shown["tables"][1].rows if row[0] == "muon")
    assert muon[1].endswith("(n=6 and 3)")


def test_ratios_are_differences_of_logarithms() -> None:
    pairs = []
    for seed in range(3):
        pairs.append(trajectory({"name": "gd"}, [0.1] * 3, seed, train_nll=[1.0, 1.0, 1.0 + seed]))
        pairs.append(trajectory({"name": "sam", "rho": 0.1}, [0.1] * 3, seed, train_nll=[1.0, 1.0, 2.0 + 2 * seed]))
    gap = difference(pairs, "sam rho=0.1", lambda run: run.rows[-1]["train/nll"] or 0.0, logs=True)
    assert gap is not None
    assert gap.times == "2 times [2, 2] (n=3)"


def test_verdicts() -> None:
    below, above, across, none = (Difference(0, *i, "9") for i in ((-2, -1), (1, 2), (-1, 1), (-0.001, 0.001)))
    assert (lower(below, below), lower(below, across), lower(below, above)) == ("holds", UNSURE, "does not hold")
    assert (lower(none), lower(below, none), lower(below, None)) == ("does not hold", UNSURE, UNSURE)
    assert (higher(above), higher(below), higher(across)) == ("holds", "does not hold", UNSURE)
    assert (not_lower(above), not_lower(none), not_lower(below)) == ("holds", "holds", "does not hold")
    assert not_lower(across) == not_lower(None) == UNSURE
    assert both("holds", "holds") == "holds"
    assert both("holds", "does not hold") == "does not hold"
    assert both("holds", UNSURE) == UNSURE


def test_rises_counts_observations_above_the_one_before() -> None:
    assert rises(trajectory({"name": "gd"}, [0.1] * 5, train_nll=[2.0, 1.0, 1.5, 1.2, 1.3])) == 0.5


def against(name: str, options: dict[str, object], ours: dict[str, list[float]], ece: list[float]) -> dict[str, str]:
    """Three seeds of gd, as `trajectory` has it, and of another, with what is said of it changed."""
    found = []
    for seed in range(3):
        found.append(trajectory({"name": "gd"}, [0.0, 0.3, 0.2, 0.1 + 0.001 * seed], seed))
        columns = {key: [value * (1 + 0.001 * seed) for value in column] for key, column in ours.items()}
        found.append(trajectory({"name": name, **options}, ece, seed, **columns))
    return verdicts(found)


def test_a_lower_peak_and_a_sooner_end_are_two_claims() -> None:
    lower_peak = "muon has a lower peak of training ECE than gd"
    sooner = "the training ECE of muon falls from its peak to below 0.02 in fewer steps than gd's"
    told = against("muon", {}, {}, [0.0, 0.4, 0.01, 0.0])  # gd never gets there
    assert (told[lower_peak], told[sooner]) == ("does not hold", "holds")
    told = against("muon", {}, {}, [0.0, 0.1, 0.09, 0.08])
    assert (told[lower_peak], told[sooner]) == ("holds", UNSURE)  # neither gets there
    pairs = []
    for seed, (ours, plain) in enumerate((([0.3, 0.01], [0.3, 0.1]), ([0.3, 0.1], [0.3, 0.01]))):
        pairs += [trajectory({"name": "gd"}, plain, seed), trajectory({"name": "bulk_sgd", "k": 1}, ours, seed)]
    claim = "the training ECE of bulk_sgd k=1 falls from its peak to below 0.02 in fewer steps than gd's"
    assert verdicts(pairs)[claim] == UNSURE  # one each way
    assert verdicts(pairs[2:] + [replace_seed(run, 2) for run in pairs[2:]])[claim] == "does not hold"


def replace_seed(run: Trajectory, seed: int) -> Trajectory:
    return Trajectory(replace(run.spec, seed=seed), run.rows)


def test_directional_optimizers_are_compared_with_sam() -> None:
    claim = "bulk_sgd k=1 has a lower training ECE than sam rho=0.1, at its peak and in the mean"
    assert verdicts(runs(sam=0.3, muon=0.1, bulk=0.2))[claim] == "holds"
    assert verdicts(runs(sam=0.1, muon=0.1, bulk=0.2))[claim] == "does not hold"


def test_what_cancels_between_learning_rates_is_not_alike() -> None:
    def at(low: float, high: float) -> str:
        found = []
        for seed in range(3):
            for lr, height in ((0.1, low), (0.2, high)):
                found.append(trajectory({"name": "gd", "lr": lr}, [0.0, 0.3 + 0.001 * seed], seed))
                found.append(trajectory({"name": "sam", "rho": 0.1, "lr": lr}, [0.0, height + 0.001 * seed], seed))
        told = verdicts(found)
        return told["sam rho=0.1 has the training ECE of gd within 0.01, peak and mean, at every learning rate"]

    assert at(0.3, 0.3) == "holds"
    assert at(0.25, 0.35) == "does not hold"
    assert verdicts(runs(0.3, 0.3, 0.3)[:2])[
        "sam rho=0.1 has the training ECE of gd within 0.01, peak and mean, at every learning rate"
    ] == (UNSURE)


def test_sam_is_flatter_and_slower() -> None:
    flat = "sam rho=0.1 keeps sharpness below gd's, at its peak and at the end"
    slow = "sam rho=0.1 converges more slowly than gd: a higher training loss after as many steps"
    ece = [0.0, 0.3, 0.2, 0.1]
    columns = {"train_ggn_sharpness": [1, 2, 3, 2.0], "train_nll": [2.0, 1.95, 1.9, 1.88]}
    told = against("sam", {"rho": 0.1}, columns, ece)
    assert (told[flat], told[slow]) == ("holds", "holds")
    told = against("sam", {"rho": 0.1}, {"train_ggn_sharpness": [1, 9, 3, 2.0], "train_nll": [2, 1, 1, 0.5]}, ece)
    assert (told[flat], told[slow]) == ("does not hold", "does not hold")  # a higher peak; a lower loss
    told = against("sam", {"rho": 0.1}, {"train_nll": [2.0, 1.9, 1.8, 1.699]}, ece)
    assert (told[flat], told[slow]) == ("does not hold", "does not hold")  # an interval around 0, within 5 %


def test_muon_low_where_it_is_not_flat() -> None:
    claim = "muon has a lower mean training ECE than gd at a mean sharpness that is not lower"
    low, sharp, flat = [0.0, 0.1, 0.05, 0.01], {"train_ggn_sharpness": [1, 5, 5, 5]}, {"train_ggn_sharpness": [1.0] * 4}
    assert against("muon", {}, sharp, low)[claim] == "holds"
    assert against("muon", {}, flat, low)[claim] == "does not hold"  # it is flat
    assert against("muon", {}, sharp, [0.0, 0.6, 0.4, 0.2])[claim] == "does not hold"  # its ECE is higher


def test_muon_ends_sure_of_itself() -> None:
    claims = [
        "muon ends with larger training margins than gd",
        "muon ends with a training ECE below 0.02",
        "muon ends with a higher test ECE than gd",
    ]
    told = against(
        "muon", {}, {"train_margin_mean": [0, 5, 9, 9], "test_ece": [0.1, 0.2, 0.3, 0.4]}, [0, 0.3, 0.1, 0.001]
    )
    assert [told[claim] for claim in claims] == ["holds"] * 3
    told = against(
        "muon", {}, {"train_margin_mean": [0, 0, 0, 1], "test_ece": [0.1, 0.1, 0.1, 0.05]}, [0, 0.3, 0.1, 0.1]
    )
    assert [told[claim] for claim in claims] == ["does not hold"] * 3


def test_bulk_sgd_comes_down_sharp_and_oscillating() -> None:
    claims = [
        "bulk_sgd k=1 brings the training loss below 0.5 of its first value in every run",
        "bulk_sgd k=1 peaks at a higher sharpness than gd",
        "bulk_sgd k=1 oscillates: its training loss rises more often than gd's",
    ]
    ece = [0.0, 0.3, 0.2, 0.1]
    columns = {"train_nll": [2.0, 0.5, 1.0, 0.8], "train_ggn_sharpness": [1, 90, 80, 3]}
    told = against("bulk_sgd", {"k": 1}, columns, ece)
    assert [told[claim] for claim in claims] == ["holds"] * 3
    columns = {"train_nll": [2.0, 1.8, 1.7, 1.6], "train_ggn_sharpness": [1, 2, 2, 2]}
    told = against("bulk_sgd", {"k": 1}, columns, ece)
    assert [told[claim] for claim in claims] == ["does not hold"] * 3


def test_what_the_study_needs_is_checked() -> None:
    spec = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": {"curvature": False}})
    with pytest.raises(ValueError, match="needs the observer curvature"):
        check(spec)
