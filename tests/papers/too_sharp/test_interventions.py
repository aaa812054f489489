import math
from dataclasses import replace

import pytest
from scipy.stats import ttest_ind

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.claim import Verdict, conjunction
from surefoot.studies.difference import Difference, difference_from
from surefoot.studies.intervals import welch
from surefoot.studies.paired import last
from surefoot.studies.study import read_study
from surefoot.table import Estimate
from surefoot_papers.too_sharp.interventions import FIGURES
from surefoot_papers.too_sharp.interventions._judging import higher, lower, not_lower
from surefoot_papers.too_sharp.interventions.analysis import check, outcome
from surefoot_papers.too_sharp.interventions.profile import (
    decay,
    mean_ece,
    mean_sharpness,
    peak_ece,
    rises,
    steps_to_small,
)

REPRODUCED, NOT_SEEN, INCONCLUSIVE = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE


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
    return Trajectory.of(spec, rows)


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
    ours = welch(Estimate.of(a), Estimate.of(b))
    theirs = ttest_ind(a, b, equal_var=False).confidence_interval()
    assert ours is not None
    assert ours[1:] == pytest.approx((theirs.low, theirs.high))
    assert welch(Estimate.of([0.1]), Estimate.of(b)) is None
    assert welch(Estimate.of([1.0, 1.0]), Estimate.of([0.5, 0.5])) == (0.5, 0.5, 0.5)


def runs(sam: float, muon: float, bulk: float) -> list[Trajectory]:
    done = []
    for seed in range(3):
        jitter = 0.001 * seed
        for optimizer, height in (
            ({"name": "gd"}, 0.3),
            ({"name": "sam", "rho": 0.1}, sam),
            ({"name": "muon"}, muon),
            ({"name": "bulk_sgd", "k": 1}, bulk),
            ({"name": "bulk_sgd", "k": 3}, bulk),
        ):
            done.append(trajectory(optimizer, [0.0, height + jitter, height + jitter, 0.0], seed))
    return done


def verdicts(done: list[Trajectory]) -> dict[str, Verdict]:
    return {claim.id: claim.verdict for claim in outcome(done).claims}


def test_the_papers_picture_and_its_opposite() -> None:
    judged = verdicts(runs(sam=0.3, muon=0.1, bulk=0.2))
    assert judged["hypothesis/1/together"] == NOT_SEEN  # no difference
    assert judged["hypothesis/2/together"] == REPRODUCED
    assert judged["hypothesis/2/bulk-sgd/k-3"] == REPRODUCED
    judged = verdicts(runs(sam=0.2, muon=0.4, bulk=0.2))
    assert judged["hypothesis/1/together"] == REPRODUCED
    assert judged["hypothesis/2/together"] == NOT_SEEN  # Muon's
    assert verdicts(runs(0.3, 0.3, 0.3)[:5])["hypothesis/2/muon"] == (INCONCLUSIVE)


def test_the_profile_has_a_row_per_variant_and_learning_rate() -> None:
    profile, differences = outcome(runs(0.3, 0.1, 0.2)).tables
    assert [row[0] for row in profile.rows] == ["gd", "bulk_sgd k=1", "bulk_sgd k=3", "muon", "sam rho=0.1"]
    assert math.isclose(profile.rows[0][5].mean, 4.0)
    assert len(differences.rows) == 4
    assert differences.rows[0][1].endswith("(n=3)")


def test_every_interval_carries_its_n() -> None:
    done = runs(0.3, 0.1, 0.2)
    for seed in range(3):
        done.append(trajectory({"name": "muon", "lr": 0.02}, [0.0, 0.1, 0.1, 0.0], seed))  # a learning rate gd lacks
    shown = outcome(done)
    for table in (shown.tables[1], shown.claims_table):
        for cell in (str(cell) for row in table.rows for cell in row):
            assert cell.count("[") <= cell.count("(n="), cell
    muon = next(row for row in shown.tables[1].rows if row[0] == "muon")
    assert muon[1].endswith("(n=6 and 3)")


def test_ratios_are_differences_of_logarithms() -> None:
    pairs = []
    for seed in range(3):
        pairs.append(trajectory({"name": "gd"}, [0.1] * 3, seed, train_nll=[1.0, 1.0, 1.0 + seed]))
        pairs.append(trajectory({"name": "sam", "rho": 0.1}, [0.1] * 3, seed, train_nll=[1.0, 1.0, 2.0 + 2 * seed]))
    gap = difference_from(pairs, "sam rho=0.1", last("train/nll"), baseline="gd", logs=True)
    assert gap is not None
    assert gap.times == "2 times [2, 2] (n=3)"


def test_verdicts() -> None:
    below, above, across, none = (Difference(0, *i, (9,)) for i in ((-2, -1), (1, 2), (-1, 1), (-0.001, 0.001)))
    assert (lower(below, below), lower(below, across), lower(below, above)) == (REPRODUCED, INCONCLUSIVE, NOT_SEEN)
    assert (lower(none), lower(below, none), lower(below, None)) == (NOT_SEEN, INCONCLUSIVE, INCONCLUSIVE)
    assert (higher(above), higher(below), higher(across)) == (REPRODUCED, NOT_SEEN, INCONCLUSIVE)
    assert (not_lower(above), not_lower(none), not_lower(below)) == (REPRODUCED, REPRODUCED, NOT_SEEN)
    assert not_lower(across) == not_lower(None) == INCONCLUSIVE
    assert conjunction([REPRODUCED, REPRODUCED]) == REPRODUCED
    assert conjunction([REPRODUCED, NOT_SEEN]) == NOT_SEEN
    assert conjunction([REPRODUCED, INCONCLUSIVE]) == INCONCLUSIVE


def test_rises_counts_observations_above_the_one_before() -> None:
    assert rises(trajectory({"name": "gd"}, [0.1] * 5, train_nll=[2.0, 1.0, 1.5, 1.2, 1.3])) == 0.5


def against(
    name: str, options: dict[str, object], ours: dict[str, list[float]], ece: list[float]
) -> dict[str, Verdict]:
    """Three seeds of gd, as `trajectory` has it, and of another, with what is said of it changed."""
    done = []
    for seed in range(3):
        done.append(trajectory({"name": "gd"}, [0.0, 0.3, 0.2, 0.1 + 0.001 * seed], seed))
        columns = {key: [value * (1 + 0.001 * seed) for value in column] for key, column in ours.items()}
        done.append(trajectory({"name": name, **options}, ece, seed, **columns))
    return verdicts(done)


def test_a_lower_peak_and_a_sooner_end_are_two_claims() -> None:
    lower_peak = "lower-peak/muon"
    sooner = "sooner/muon"
    judged = against("muon", {}, {}, [0.0, 0.4, 0.01, 0.0])  # gd never gets there
    assert (judged[lower_peak], judged[sooner]) == (NOT_SEEN, REPRODUCED)
    judged = against("muon", {}, {}, [0.0, 0.1, 0.09, 0.08])
    assert (judged[lower_peak], judged[sooner]) == (REPRODUCED, INCONCLUSIVE)  # neither gets there
    pairs = []
    for seed, (ours, plain) in enumerate((([0.3, 0.01], [0.3, 0.1]), ([0.3, 0.1], [0.3, 0.01]))):
        pairs += [trajectory({"name": "gd"}, plain, seed), trajectory({"name": "bulk_sgd", "k": 1}, ours, seed)]
    claim = "sooner/bulk-sgd/k-1"
    assert verdicts(pairs)[claim] == INCONCLUSIVE  # one each way
    assert verdicts(pairs[2:] + [replace_seed(run, 2) for run in pairs[2:]])[claim] == NOT_SEEN


def replace_seed(run: Trajectory, seed: int) -> Trajectory:
    return replace(run, spec=replace(run.spec, seed=seed))


def test_directional_optimizers_are_compared_with_sam() -> None:
    claim = "lower-than-sam/bulk-sgd/k-1"
    assert verdicts(runs(sam=0.3, muon=0.1, bulk=0.2))[claim] == REPRODUCED
    assert verdicts(runs(sam=0.1, muon=0.1, bulk=0.2))[claim] == NOT_SEEN


def test_what_cancels_between_learning_rates_is_not_alike() -> None:
    def at(low: float, high: float) -> Verdict:
        done = []
        for seed in range(3):
            for lr, height in ((0.1, low), (0.2, high)):
                done.append(trajectory({"name": "gd", "lr": lr}, [0.0, 0.3 + 0.001 * seed], seed))
                done.append(trajectory({"name": "sam", "rho": 0.1, "lr": lr}, [0.0, height + 0.001 * seed], seed))
        judged = verdicts(done)
        return judged["same-ece/sam/rho-0.1"]

    assert at(0.3, 0.3) == REPRODUCED
    assert at(0.25, 0.35) == NOT_SEEN
    assert verdicts(runs(0.3, 0.3, 0.3)[:2])["same-ece/sam/rho-0.1"] == (INCONCLUSIVE)


def test_sam_is_flatter_and_slower() -> None:
    flat = "flatter/sam/rho-0.1"
    slow = "slower/sam/rho-0.1"
    ece = [0.0, 0.3, 0.2, 0.1]
    columns = {"train_ggn_sharpness": [1, 2, 3, 2.0], "train_nll": [2.0, 1.95, 1.9, 1.88]}
    judged = against("sam", {"rho": 0.1}, columns, ece)
    assert (judged[flat], judged[slow]) == (REPRODUCED, REPRODUCED)
    judged = against("sam", {"rho": 0.1}, {"train_ggn_sharpness": [1, 9, 3, 2.0], "train_nll": [2, 1, 1, 0.5]}, ece)
    assert (judged[flat], judged[slow]) == (NOT_SEEN, NOT_SEEN)  # a higher peak; a lower loss
    judged = against("sam", {"rho": 0.1}, {"train_nll": [2.0, 1.9, 1.8, 1.699]}, ece)
    assert (judged[flat], judged[slow]) == (NOT_SEEN, NOT_SEEN)  # an interval around 0, within 5 %


def test_muon_low_where_it_is_not_flat() -> None:
    claim = "lower-ece-not-flatter/muon"
    low, sharp, flat = [0.0, 0.1, 0.05, 0.01], {"train_ggn_sharpness": [1, 5, 5, 5]}, {"train_ggn_sharpness": [1.0] * 4}
    assert against("muon", {}, sharp, low)[claim] == REPRODUCED
    assert against("muon", {}, flat, low)[claim] == NOT_SEEN  # it is flat
    assert against("muon", {}, sharp, [0.0, 0.6, 0.4, 0.2])[claim] == NOT_SEEN  # its ECE is higher


def test_muon_ends_sure_of_itself() -> None:
    claims = [
        "ends/muon/margin",
        "ends/muon/train-ece",
        "ends/muon/test-ece",
    ]
    judged = against(
        "muon", {}, {"train_margin_mean": [0, 5, 9, 9], "test_ece": [0.1, 0.2, 0.3, 0.4]}, [0, 0.3, 0.1, 0.001]
    )
    assert [judged[claim] for claim in claims] == [REPRODUCED] * 3
    judged = against(
        "muon", {}, {"train_margin_mean": [0, 0, 0, 1], "test_ece": [0.1, 0.1, 0.1, 0.05]}, [0, 0.3, 0.1, 0.1]
    )
    assert [judged[claim] for claim in claims] == [NOT_SEEN] * 3


def test_bulk_sgd_comes_down_sharp_and_oscillating() -> None:
    claims = [
        "loss-falls/bulk-sgd/k-1",
        "sharper-peak/bulk-sgd/k-1",
        "oscillates/bulk-sgd/k-1",
    ]
    ece = [0.0, 0.3, 0.2, 0.1]
    columns = {"train_nll": [2.0, 0.5, 1.0, 0.8], "train_ggn_sharpness": [1, 90, 80, 3]}
    judged = against("bulk_sgd", {"k": 1}, columns, ece)
    assert [judged[claim] for claim in claims] == [REPRODUCED] * 3
    columns = {"train_nll": [2.0, 1.8, 1.7, 1.6], "train_ggn_sharpness": [1, 2, 2, 2]}
    judged = against("bulk_sgd", {"k": 1}, columns, ece)
    assert [judged[claim] for claim in claims] == [NOT_SEEN] * 3


def test_what_the_study_needs_is_checked() -> None:
    spec = RunSpec.from_dict({"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": {"curvature": False}})
    with pytest.raises(ValueError, match="needs the observer curvature"):
        check(spec)


def test_claims_carry_the_numbers_that_they_are_judged_by() -> None:
    claims = {claim.id: claim for claim in outcome(runs(sam=0.3, muon=0.1, bulk=0.2)).claims}
    muon = claims["hypothesis/2/muon"]
    assert (muon.estimate, muon.n) == (pytest.approx(-0.2), (3,))
    assert muon.statement == "muon lowers training ECE against gd (hypothesis 2, directional flatness)"
    flatter = claims["flatter/sam/rho-0.1"]
    assert (flatter.estimate, flatter.low, flatter.high) == (1.0, 1.0, 1.0)  # a ratio, not its logarithm
    sooner = claims["sooner/muon"]
    assert (sooner.estimate, sooner.n, sooner.unit) == (0.0, (3,), "pairs")
    together = claims["hypothesis/2/together"]
    assert (together.estimate, together.measured) == (None, "")


def test_what_was_not_measured_is_left_out_and_not_0() -> None:
    done = runs(sam=0.3, muon=0.1, bulk=0.2)
    blank = trajectory({"name": "muon"}, [0.1] * 4, train_ece=[math.nan] * 4, train_ggn_sharpness=[math.nan] * 4)
    assert all(map(math.isnan, (peak_ece(blank), mean_ece(blank), mean_sharpness(blank))))
    assert steps_to_small(blank) is None
    assert decay(blank) is None
    place = next(k for k, run in enumerate(done) if run.optimizer == "muon")
    without = outcome([blank if k == place else run for k, run in enumerate(done)])
    claims = {claim.id: claim for claim in without.claims}
    assert claims["lower-peak/muon"].n == claims["ends/muon/train-ece"].n == (2,)
    gaps = trajectory({"name": "gd"}, [0.0, 0.3, 0.1, 0.0], train_ece=[0.0, math.nan, 0.2, 0.0])
    assert (peak_ece(gaps), mean_ece(gaps)) == (0.2, pytest.approx((0.2 * 20 / 2 + 0.2 * 10 / 2) / 30))


def test_every_family_has_a_rule_in_the_study_s_file() -> None:
    families = {claim.family for claim in outcome(runs(0.3, 0.1, 0.2)).claims}
    assert families == {rule.family for rule in read_study("interventions").rules}


def test_the_figure_can_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    (figure,) = FIGURES
    assert figure.draw(runs(0.3, 0.1, 0.2)).startswith("<svg")
