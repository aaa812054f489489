"""The analysis of the margin-aware study on numbers made up, and the study's own runs, short."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from surefoot.runs.folder import RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.study import read_study
from surefoot_papers.too_sharp import margin_aware
from surefoot_papers.too_sharp.margin_aware._claims import corrupted, kept
from surefoot_papers.too_sharp.margin_aware._tuned import gaps, method_of, setting_of, settings, tuned, usual

OBSERVERS = {"curvature": False, "scores": {}, "posthoc": {}}


def made(loss: dict[str, Any], curve: list[tuple[float, float]], *, seed: int = 0, budget: int = 300, **optimizer: Any) -> Trajectory:  # fmt: skip  # noqa: E501
    """A run whose observations, every 100 gradients, have these test ECEs and validation NLLs."""
    tree = {"optimizer": {"name": "sgd", "lr": 0.1, **optimizer}, "budget": budget, "loss": loss, "seed": seed}
    tree |= {"observers": OBSERVERS, "select": "validation nll", "data": {"name": "digits", "num_validation": 100}}
    rows: list[Row] = []
    for place, (error, nll) in enumerate(curve):
        row: Row = {"step": 50 * place, "gradients": 50 * place, "validation/nll": nll, "test/ece": error}
        row |= {"test/nll": nll + 0.1, "test/accuracy": 0.9 - error, "test/debiased_rms_ce": error, "train/nll": 0.1}
        rows.append(row | {"test/ece_temperature": error / 2, "test/nll_temperature": nll})
    return Trajectory.of(RunSpec.from_dict(tree), rows)


PLAIN, OURS = {"name": "cross_entropy"}, {"name": "margin_aware"}
WORSE = [(0.02, 2.3), (0.05, 1.0), (0.2, 2.0), (0.3, 3.0), (0.3, 3.1), (0.3, 3.2), (0.4, 4.0)]  # budget 300
KEPT = [(0.02, 2.3), (0.06, 1.1), (0.04, 0.9), (0.05, 0.8), (0.05, 0.8), (0.05, 0.8), (0.06, 0.8)]


def shifted(curve: list[tuple[float, float]], seed: int) -> list[tuple[float, float]]:
    return [(error + 0.001 * seed, nll + 0.01 * seed) for error, nll in curve]


RUNS = [
    *(made(PLAIN, shifted(WORSE, seed), seed=seed) for seed in range(3)),
    *(made(OURS, shifted(KEPT, seed), seed=seed) for seed in range(3)),
    made({"name": "mbls", "margin": 3.0}, [(0.1, 2.0), (0.1, 1.5), (0.1, 2.0)], budget=100),
    made({"name": "mbls", "margin": 6.0}, [(0.1, 2.0), (0.1, 1.2), (0.1, 2.0)], budget=100),
    made(PLAIN, [(0.1, 2.0)], budget=100, weight_decay=0.01),
    made({**OURS, "tail": 0.0}, [(0.1, 2.0), (0.07, 1.0)], budget=100),
]


def test_runs_are_sorted_by_what_they_do() -> None:
    assert [method_of(run.spec) for run in RUNS[5:]] == ["margin_aware", "mbls", "mbls", "weight_decay", "ablation"]
    assert [setting_of(run.spec) for run in RUNS[5:]] == ["", "margin=3", "margin=6", "weight_decay=0.01", "tail=0"]


def test_the_usual_budget_is_the_first_third_of_the_longest() -> None:
    assert usual(RUNS[0], RUNS)["gradients"].tolist() == [0, 50, 100]
    assert len(usual(RUNS[6], RUNS)) == 3


def test_options_are_chosen_by_the_validation_nll_of_the_end_that_counts() -> None:
    chosen = tuned(RUNS, "sgd", "mbls", stopped=True)
    assert chosen is not None
    assert chosen.setting == "margin=6"
    last = tuned(RUNS, "sgd", "mbls")
    assert last is not None
    assert last.setting == "margin=3"  # a tie: the first
    assert last.observations[0]["step"] == 100
    assert len(settings(RUNS, "sgd", "mbls")) == 2
    assert tuned(RUNS, "muon", "mbls") is None
    stopped, plain = tuned(RUNS, "sgd", "cross_entropy", stopped=True), tuned(RUNS, "sgd", "cross_entropy")
    assert stopped is not None
    assert plain is not None
    assert [end["step"] for end in stopped.observations.values()] == [50, 50, 50]
    assert gaps(stopped, plain, "test/ece") == pytest.approx([-0.15] * 3)
    assert gaps(stopped, plain, "test/ece", instead="test/ece_temperature") == pytest.approx([-0.05, -0.0495, -0.049])


def test_kept_is_counted_from_where_one_would_have_stopped() -> None:
    assert kept(RUNS[0], RUNS) == pytest.approx((0.05, 0.2, 0.4))  # not from the untrained 0.02
    assert kept(RUNS[3], RUNS) == pytest.approx((0.04, 0.04, 0.06))


def test_tables_and_claims() -> None:
    outcome = margin_aware.outcome(RUNS)
    scores, off, longer, ablation, choices = outcome.tables
    ends = {(row[1]): row[2:] for row in scores.rows}
    assert ends["margin_aware"][1] == "0.041 ± 0.001 (n=3)"
    assert ends["cross_entropy, stopped"][1] == "0.051 ± 0.001 (n=3)"
    assert ends["cross_entropy, temperature"] == (
        *ends["cross_entropy"][:1],
        "0.1005 ± 0.0005 (n=3)",
        None,
        "2.01 ± 0.01 (n=3)",
    )
    assert ends["margin_aware, temperature"][1] == "0.0205 ± 0.0005 (n=3)"
    differences = {row[0]: row[1:] for row in off.rows}
    assert differences["cross_entropy"][2] == "-0.1600 [-0.1600, -0.1600] (n=3)"
    assert differences["cross_entropy, stopped"][2] == "-0.0100 [-0.0100, -0.0100] (n=3)"
    assert differences["cross_entropy, temperature"][2:4] == ("-0.0595 [-0.0607, -0.0583] (n=3)", None)
    assert differences["cross_entropy, stopped; ours stopped too"][2] == "-0.0100 [-0.0100, -0.0100] (n=3)"
    assert [row[1] for row in longer.rows] == ["margin_aware", "cross_entropy"]
    assert [row[1] for row in ablation.rows] == ["margin_aware", "cross_entropy", "tail=0"]
    assert {row[1]: row[3] for row in choices.rows if row[2] == "stopped"} == {"mbls": "margin=6"}
    assert [claim.verdict for claim in outcome.claims] == [Verdict.REPRODUCED] * 7
    assert [claim.id for claim in outcome.claims] == [
        "ece-below-cross-entropy/sgd",
        "ece-cut/sgd",
        "accuracy-close-to-cross-entropy",
        "nll-below-cross-entropy",
        "ece-close-to-early-stopping",
        "better-than-early-stopping",
        "calibration-kept/sgd",
    ]
    below, cut, *_, kept_claim = outcome.claims
    assert below.estimate == pytest.approx(-0.16)
    assert (below.low, below.high, below.n) == (pytest.approx(-0.16), pytest.approx(-0.16), (3,))
    assert cut.measured == "0.201 / 0.041 = 4.9 (n=3)"
    assert (cut.estimate, cut.n) == (pytest.approx(0.201 / 0.041), (3,))
    assert (kept_claim.estimate, kept_claim.n) == (pytest.approx(0.02), (3, 3))


def test_every_claim_has_a_rule_in_the_studys_file() -> None:
    families = {claim.family for claim in margin_aware.outcome(CORRUPTED).claims}
    assert families == {rule.family for rule in read_study("margin-aware", scale="digits").rules}


def test_claims_fail_where_the_numbers_do() -> None:
    swapped = [
        *(made(PLAIN, shifted(KEPT, seed), seed=seed) for seed in range(3)),
        *(made(OURS, shifted(WORSE, seed), seed=seed) for seed in range(3)),
    ]
    claims = margin_aware.outcome(swapped).claims
    assert [claim.verdict for claim in claims] == [Verdict.NOT_SEEN, Verdict.NOT_TESTED, *[Verdict.NOT_SEEN] * 5]
    assert claims[1].measured.endswith("; cross-entropy's is 0.041 debiased: nothing to cut")
    assert {claim.verdict for claim in margin_aware.outcome(swapped[:1]).claims} == {Verdict.INCONCLUSIVE}


def test_what_was_not_measured_is_left_out() -> None:
    blind = [changed(run, slice(None), {"test/ece": math.nan}) if run.spec.seed == 0 else run for run in RUNS[:6]]
    claims = {claim.id: claim for claim in margin_aware.outcome(blind).claims}
    assert claims["ece-below-cross-entropy/sgd"].n == (2,)
    assert claims["nll-below-cross-entropy"].n == (3,)
    assert claims["calibration-kept/sgd"].n == (2, 2)
    assert claims["ece-cut/sgd"].n == (2,)
    undebiased = [changed(run, slice(None), {"test/debiased_rms_ce": math.nan}) for run in RUNS[:6]]
    cut = next(claim for claim in margin_aware.outcome(undebiased).claims if claim.family == "ece-cut")
    assert cut.verdict is Verdict.INCONCLUSIVE  # whether there is something to cut is not known


def changed(run: Trajectory, where: int | slice, values: dict[str, float]) -> Trajectory:
    """The run with other values at some of its observations."""
    columns = dict(run.columns)
    for key, value in values.items():
        columns[key] = run[key].copy()
        columns[key][where] = value
    return replace(run, columns=columns)


def corrupt(run: Trajectory, place: int, *, by: float) -> Trajectory:
    for kind, factor in (("blur-3", 1.0), ("noise-3", 3.0)):
        scores = {"accuracy": 0.5, "ece": by * factor, "ece_temperature": by * factor / 2, "auroc_ood": 0.7}
        run = changed(run, place, {f"{kind}/{name}": value for name, value in scores.items()})
    return run


CORRUPTED = [
    *(corrupt(run, 2, by=0.2 + 0.001 * run.spec.seed) for run in RUNS[:3]),
    *(corrupt(run, 2, by=0.05 + 0.001 * run.spec.seed) for run in RUNS[3:6]),
]


def test_corruption_is_read_where_the_usual_budget_ends_else_at_the_last_step() -> None:
    assert "corruption" not in [table.name for table in margin_aware.outcome(RUNS).tables]
    assert corrupted(CORRUPTED, "cross_entropy")["sgd", 0] == pytest.approx(
        {"accuracy": 0.5, "ece": 0.4, "ece_temperature": 0.2}
    )
    outcome = margin_aware.outcome(CORRUPTED)
    assert outcome.claims[-1].measured == "-0.0990 [-0.1015, -0.0965] (n=3)"
    assert outcome.claims[-1].verdict is Verdict.REPRODUCED
    assert [row[-1] for row in outcome.tables[-1].rows] == [
        "0.102 ± 0.002 (n=3)",
        "0.051 ± 0.001 (n=3)",
        "0.402 ± 0.002 (n=3)",
        "0.201 ± 0.001 (n=3)",
    ]
    late = [corrupt(run, -1, by=0.3) for run in RUNS[:3]]
    assert corrupted(late, "cross_entropy")["sgd", 1]["ece"] == pytest.approx(0.6)


def test_what_a_run_must_measure() -> None:
    margin_aware.check(RUNS[0].spec)
    blind = replace(RUNS[0].spec, observers={"calibration": {}, "margins": {}, "scores": {}})
    with pytest.raises(ValueError, match="needs the observer posthoc"):
        margin_aware.check(blind)
    with pytest.raises(ValueError, match="needs `select` to be 'validation nll'"):
        margin_aware.check(replace(RUNS[0].spec, select="last"))


@pytest.mark.slow
def test_runs_of_the_study_are_what_the_analysis_reads(tmp_path: Path) -> None:
    wanted = {"cross_entropy", "margin_aware", "weight_decay", "ablation"}
    specs: dict[tuple[str, str], RunSpec] = {}
    for spec in read_study("margin-aware", scale="digits").specs:
        if method_of(spec) in wanted and spec.optimizer.name in ("sgd", "sam"):
            specs.setdefault((spec.optimizer.name, method_of(spec)), replace(spec, budget=spec.budget // 50))
    runs = []
    for spec in specs.values():
        folder = RunFolder(tmp_path / spec.id)
        assert run(spec, folder).status == "done"
        runs.append(folder.observed()[0])
    assert len(runs) == 6
    tables = margin_aware.outcome(runs).tables
    assert {row[0] for row in tables[0].rows} == {"sgd", "sam"}
    sharpness = dict(zip(tables[3].columns, tables[3].rows[0], strict=True))["train GN sharpness"]
    assert sharpness is not None
