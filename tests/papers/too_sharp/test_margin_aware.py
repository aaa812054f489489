"""The analysis of the margin-aware study on numbers made up, and the study's own runs, short."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from surefoot.runs.folder import Row, RunFolder
from surefoot.runs.run import run
from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.study import read_study
from surefoot_papers.too_sharp.margin_aware import analysis as margin_aware
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
    return Trajectory(RunSpec.from_dict(tree), rows)


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
    assert [row["gradients"] for row in usual(RUNS[0], RUNS)] == [0, 50, 100]
    assert len(usual(RUNS[6], RUNS)) == 3


def test_options_are_chosen_by_the_validation_nll_of_the_end_that_counts() -> None:
    chosen = tuned(RUNS, "sgd", "mbls", stopped=True)
    assert chosen is not None
    assert chosen.setting == "margin=6"
    last = tuned(RUNS, "sgd", "mbls")
    assert last is not None
    assert last.setting == "margin=3"  # a tie: the first
    assert last.rows[0]["step"] == 100
    assert len(settings(RUNS, "sgd", "mbls")) == 2
    assert tuned(RUNS, "muon", "mbls") is None
    stopped, plain = tuned(RUNS, "sgd", "cross_entropy", stopped=True), tuned(RUNS, "sgd", "cross_entropy")
    assert stopped is not None
    assert plain is not None
    assert [row["step"] for row in stopped.rows.values()] == [50, 50, 50]
    assert gaps(stopped, plain, "test/ece") == pytest.approx([-0.15] * 3)
    assert gaps(stopped, plain, "test/ece", instead="test/ece_temperature") == pytest.approx([-0.05, -0.0495, -0.049])


def test_kept_is_counted_from_where_one_would_have_stopped() -> None:
    assert kept(RUNS[0], RUNS) == pytest.approx((0.05, 0.2, 0.4))  # not from the untrained 0.02
    assert kept(RUNS[3], RUNS) == pytest.approx((0.04, 0.04, 0.06))


def test_tables_and_claims() -> None:
    found = margin_aware.outcome(RUNS)
    scores, off, longer, ablation, choices = found["tables"]
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
    verdicts = [row[-1] for row in found["claims"].rows]
    assert verdicts == ["holds"] * 7
    assert found["claims"].rows[1][1] == "0.201 / 0.041 = 4.9 (n=3)"


def test_claims_fail_where_the_numbers_do() -> None:
    swapped = [
        *(made(PLAIN, shifted(KEPT, seed), seed=seed) for seed in range(3)),
        *(made(OURS, shifted(WORSE, seed), seed=seed) for seed in range(3)),
    ]
    verdicts = [row[-1] for row in margin_aware.outcome(swapped)["claims"].rows]
    nothing = "cross-entropy's is 0.041 debiased: nothing to cut"
    assert verdicts == ["does not hold", nothing, *["does not hold"] * 5]
    alone = margin_aware.outcome(swapped[:1])["claims"].rows
    assert {row[-1] for row in alone} == {"cannot tell at this scale"}


def test_corruption_is_read_where_the_usual_budget_ends_else_at_the_last_step() -> None:
    assert "corruption" not in [table.name for table in margin_aware.outcome(RUNS)["tables"]]

    def corrupt(run: Trajectory, place: int, *, by: float) -> Trajectory:
        rows = [dict(row) for row in run.rows]
        for kind, factor in (("blur-3", 1.0), ("noise-3", 3.0)):
            scores = {"accuracy": 0.5, "ece": by * factor, "ece_temperature": by * factor / 2, "auroc_ood": 0.7}
            rows[place] |= {f"{kind}/{name}": value for name, value in scores.items()}
        return Trajectory(run.spec, rows)

    plain = [corrupt(run, 2, by=0.2 + 0.001 * run.spec.seed) for run in RUNS[:3]]
    ours = [corrupt(run, 2, by=0.05 + 0.001 * run.spec.seed) for run in RUNS[3:6]]
    assert corrupted([*plain, *ours], "cross_entropy")["sgd", 0] == pytest.approx(
        {"accuracy": 0.5, "ece": 0.4, "ece_temperature": 0.2}
    )
    found = margin_aware.outcome([*plain, *ours])
    assert found["claims"].rows[-1][1:] == ("-0.0990 [-0.1015, -0.0965] (n=3)", "holds")
    assert [row[-1] for row in found["tables"][-1].rows] == [
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
    found: dict[tuple[str, str], RunSpec] = {}
    for spec in read_study("margin-aware", scale="digits").specs:
        if method_of(spec) in wanted and spec.optimizer.name in ("sgd", "sam"):
            found.setdefault((spec.optimizer.name, method_of(spec)), replace(spec, budget=spec.budget // 50))
    runs = []
    for spec in found.values():
        folder = RunFolder(tmp_path / spec.id)
        assert run(spec, folder).status == "done"
        runs.append(Trajectory(spec, folder.rows()[0]))
    assert len(runs) == 6
    tables = margin_aware.outcome(runs)["tables"]
    assert {row[0] for row in tables[0].rows} == {"sgd", "sam"}
    sharpness = dict(zip(tables[3].columns, tables[3].rows[0], strict=True))["train GN sharpness"]
    assert sharpness is not None
