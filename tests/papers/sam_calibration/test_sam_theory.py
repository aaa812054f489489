from dataclasses import replace

import numpy as np
import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot_papers.sam_calibration.theory._claims import STATEMENTS
from surefoot_papers.sam_calibration.theory.analysis import check, outcome
from surefoot_papers.sam_calibration.theory.figure import paths

HOLDS, FAILS, UNDECIDED = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE


def observations(verdicts: list[float], kappa: float = -0.5) -> list[Row]:
    rows: list[Row] = []
    for step, verdict in enumerate(verdicts):
        row: Row = {"step": float(step)} | {f"train/{key}": verdict for key in STATEMENTS}
        row |= {
            "train/sam_kappa_min": kappa,
            "train/sam_directional": -0.1,
            "train/sam_threshold": -1.0,
            "train/sam_lambda": 1.2,
            "train/sam_lambda_0": 1.1 if step else None,
            "train/sam_rise": 0.04,
            "train/sam_half_rise": 0.02,
        }
        rows.append(row)
    return rows


def trajectory(verdicts: list[float], kappa: float = -0.5) -> Trajectory:
    spec = RunSpec.from_dict(
        {"optimizer": {"name": "sam", "lr": 0.1, "rho": 0.05}, "budget": 9, "observers": {"sam_theory": {}}}
    )
    return Trajectory.of(spec, observations(verdicts, kappa))


def claims(*runs: Trajectory) -> dict[str, Claim]:
    """By id, without the variant where it is SAM's at rho 0.05."""
    return {claim.id.removesuffix("/sam-rho-0.05"): claim for claim in outcome(runs).claims}


def says(claim: Claim) -> tuple[str, Verdict]:
    return claim.measured, claim.verdict


def test_what_holds_where_it_may() -> None:
    by_id = claims(trajectory([1, 1, 0]))
    assert says(by_id["kappa-min-above"]) == ("at 3 of 3 steps", HOLDS)
    lemma = by_id["theory/lemma-2/kappa-min"]
    assert says(lemma) == ("2 of 2 steps; assumption not met at 1", HOLDS)
    assert (lemma.estimate, lemma.n, lemma.unit) == (1.0, (2,), "steps")
    failing = claims(trajectory([1, -1, 0]))["theory/lemma-2/kappa-min"]
    assert says(failing) == ("1 of 2 steps; assumption not met at 1", FAILS)
    assert failing.estimate == 0.5
    never = claims(trajectory([0, 0, 0]))["theory/lemma-2/kappa-min"]
    assert says(never) == ("0 of 0 steps; assumption not met at 3", UNDECIDED)
    assert (never.estimate, never.n) == (None, (0,))
    assert says(claims(trajectory([1, 1], kappa=-2.0))["kappa-min-above"]) == ("at 0 of 2 steps", FAILS)


def test_steps_that_were_not_measured_do_not_count() -> None:
    run = climbing(0)
    gaps = np.array([np.nan, 1, 1, 1, 1, 1, 1, np.nan])
    keys = ("train/sam_kappa_min", "train/sam_lambda", "train/sam_kappa_end", "train/sam_kappa_line")
    by_id = claims(replace(run, columns={**run.columns, **{key: gaps * run[key] for key in keys}}))
    for id in ("kappa-min-above", "lambda-above-1", "kappa-min-falls"):
        assert says(by_id[id]) == ("at 6 of 6 steps", HOLDS)
    assert by_id["kappa-min-straight"].n == (6,)
    blind = claims(replace(run, columns={**run.columns, **{key: np.nan * gaps for key in keys}}))
    assert says(blind["kappa-min-above"]) == ("at 0 of 0 steps", UNDECIDED)
    assert says(blind["lambda-grows"]) == ("", UNDECIDED)
    assert "kappa-min-falls" not in blind


def climbing(
    seed: int,
    *,
    rho: float = 0.05,
    kappas: tuple[float, float] = (-0.1, -0.3),
    line: float = 0.99,
    weights: tuple[float, float] = (1.1, 1.4),
    lowest: float = -0.5,
    batch_size: int = 50,
    verdict: float = 1.0,
) -> Trajectory:
    """Eight observed steps, the weight rising from the first to the second in the middle."""
    spec = {"optimizer": {"name": "sam", "lr": 0.1, "rho": rho}, "budget": 9, "seed": seed, "batch_size": batch_size}
    start, end = kappas
    rows = observations([verdict] * 8)
    for place, row in enumerate(rows):
        row |= {"train/sam_kappa_start": start, "train/sam_kappa_end": end, "train/sam_kappa_line": line}
        row |= {"train/sam_lambda": weights[place // 4] + 0.01 * seed * (place // 4), "train/sam_kappa_min": lowest}
    return Trajectory.of(RunSpec.from_dict({**spec, "observers": {"sam_theory": {"rho": rho}}}), rows)


def test_kappa_falls_on_a_line() -> None:
    by_id = claims(*(climbing(seed) for seed in range(3)))
    assert by_id["kappa-min-falls"].statement == "kappa_min falls along the climb"
    assert says(by_id["kappa-min-falls"]) == ("at 24 of 24 steps", HOLDS)
    assert by_id["kappa-min-straight"].statement == "kappa_min goes along the climb on a straight line"
    assert says(by_id["kappa-min-straight"]) == ("R^2 0.990 in the median of 24 steps", HOLDS)
    other = claims(*(climbing(seed, kappas=(-0.3, -0.1), line=0.4) for seed in range(3)))
    assert says(other["kappa-min-falls"]) == ("at 0 of 24 steps", FAILS)
    assert other["kappa-min-straight"].verdict is FAILS
    assert "kappa-min-falls" not in claims(trajectory([1, 1]))  # of runs that did not keep it


def test_a_climb_may_spare_single_samples() -> None:
    run = climbing(0)
    assert "spared-samples" not in claims(run)  # of runs that did not keep it
    lowered = np.ones(8)
    none = claims(replace(run, columns={**run.columns, "train/sam_lowered": lowered}))["spared-samples"]
    text = "the climb lowers the geometric mean of the probabilities without lowering each of them"
    assert none.statement == text
    assert says(none) == ("at 0 of 8 steps; it lowers 100.0% of the samples in the mean", FAILS)
    lowered, rise = np.array([0.6, 0.2, *[1.0] * 6]), run["train/sam_rise"].copy()
    rise[1] = -0.1  # lowers no mean, so that it says nothing
    one = claims(replace(run, columns={**run.columns, "train/sam_lowered": lowered, "train/sam_rise": rise}))
    assert says(one["spared-samples"]) == ("at 1 of 7 steps; it lowers 94.3% of the samples in the mean", HOLDS)


def test_the_weight_grows() -> None:
    by_id = claims(*(climbing(seed) for seed in range(3)))
    assert by_id["lambda-above-1"].statement == "lambda is above 1, under sam rho=0.05"
    assert says(by_id["lambda-above-1"]) == ("at 24 of 24 steps", HOLDS)
    assert by_id["lambda-grows"].statement == "lambda is larger late than early, under sam rho=0.05"
    assert says(by_id["lambda-grows"]) == ("+0.310 [+0.285, +0.335] (n=3)", HOLDS)
    other = claims(*(climbing(seed, weights=(1.4, 0.9)) for seed in range(3)))
    assert says(other["lambda-above-1"]) == ("at 12 of 24 steps", FAILS)
    assert other["lambda-above-1"].estimate == 0.5
    assert other["lambda-grows"].verdict is FAILS


def test_a_large_rho_breaks_the_assumption() -> None:
    id = "assumption-broken/1/0.05"
    small = [climbing(seed) for seed in range(3)]
    broken = claims(*small, *(climbing(seed, rho=1.0, lowest=-2.0) for seed in range(3)))
    assert broken[id].statement == "the assumption is broken more often at rho 1 than at 0.05"
    assert says(broken[id]) == ("% of the steps: +100.00 [+100.00, +100.00] (n=3)", HOLDS)
    assert says(broken["kappa-min-above"]) == ("at 24 of 24 steps", HOLDS)  # at 0.05
    kept = claims(*small, *(climbing(seed, rho=1.0) for seed in range(3)))
    assert kept[id].verdict is FAILS
    assert id not in claims(*small)
    apart = claims(*small, climbing(7, rho=1.0))  # no seed in common
    assert says(apart[id]) == ("", UNDECIDED)


def test_batches_of_one_sample_have_their_own_lemma() -> None:
    runs = [climbing(0), climbing(0, batch_size=1, verdict=-1.0)]
    by_id = claims(*runs)
    lemma = "p~ <= exp(-rho ||g|| / 2) p, by kappa_min, wherever its assumption is met"
    assert by_id["theory/lemma-2/kappa-min"].statement == f"Lemma 2: {lemma}"
    assert says(by_id["theory/lemma-2/kappa-min"]) == ("8 of 8 steps; assumption not met at 0", HOLDS)
    assert by_id["theory/one-sample/lemma-1"].statement == f"Lemma 1: {lemma}"
    assert says(by_id["theory/one-sample/lemma-1"]) == ("0 of 8 steps; assumption not met at 0", FAILS)
    assert not any(id.startswith("theory/one-sample") for id in claims(*runs[:1]))
    path = outcome(runs).tables[1]
    assert [row[0] for row in path.rows] == ["sam rho=0.05", "sam rho=0.05, one sample"]


def test_tables() -> None:
    verdicts, path = outcome([trajectory([1, 0, -1])]).tables
    assert verdicts.rows[0][4:] == (1, 1, 1)
    row = dict(zip(path.columns, path.rows[0], strict=True))
    assert row["its largest"] == 0.5
    assert row["lambda / lambda_0"].n == 2
    assert row["rise of the loss / (rho ||g|| / 2)"].mean == pytest.approx(2)


def test_figure() -> None:
    runs = [climbing(seed) for seed in range(2)]
    figure = paths(runs)
    for label in ("smallest eigenvalue", "lambda_0", "sam rho=0.05, seed 0"):
        assert f">{label}<" in figure, label
    assert figure == paths(runs)


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer sam_theory"):
        check(RunSpec.from_dict({"optimizer": {"name": "sam", "lr": 0.1}, "budget": 9}))
