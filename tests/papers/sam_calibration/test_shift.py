import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.report.study import write_page, write_tables
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.study import read_study
from surefoot.studies.study_outcome import StudyOutcome
from surefoot_papers.sam_calibration.shift import FIGURES
from surefoot_papers.sam_calibration.shift._contrasts import CONTRASTS
from surefoot_papers.sam_calibration.shift._means import ood_means, with_means
from surefoot_papers.sam_calibration.shift.analysis import check, outcome
from surefoot_papers.sam_calibration.shift.figure import severities

HOLDS, FAILS = Verdict.REPRODUCED, Verdict.NOT_SEEN


def last_row(ece: float, *, apart: float = 0.7) -> Row:
    """ECE rises with severity by 0.01 from `ece`, under noise from twice that."""
    row: Row = {"step": 9.0, "test/ece": ece, "test/accuracy": 0.8}
    for name, factor in (("motion_blur", 1), ("defocus_blur", 1), ("impulse_noise", 2)):
        for severity in (1, 5):
            where = f"{name}-{severity}"
            row |= {f"{where}/accuracy": 0.5 + ece, f"{where}/ece": factor * ece + severity / 100}
            row |= {f"{where}/confidence": 0.7 + severity / 100} if severity == 5 else {}
            row |= {f"{where}/ada_ece": 0.2, f"{where}/ece_temperature": None, f"{where}/auroc_ood": 0.6}
            row |= {f"cifar100-5k-{where}/auroc_ood": apart + severity / 100}
    return row | {"svhn-2k/auroc_ood": apart, "svhn-2k/confidence": 0.5}


def run(optimizer: str, seed: int, ece: float, **parts: Any) -> Trajectory:
    apart = parts.pop("apart", 0.7)
    tree = {"optimizer": {"name": optimizer, "lr": 0.1}, "budget": 9, "seed": seed, **parts}
    return Trajectory.of(RunSpec.from_dict(tree), [{"step": 0.0, "test/ece": 0.9}, last_row(ece, apart=apart)])


RUNS = [
    *(run("sgd", seed, 0.10 + 0.01 * seed) for seed in range(3)),
    *(run("sam", seed, 0.05 + 0.01 * seed, apart=0.8) for seed in range(3)),
    *(run("sgd", seed, 0.02 + 0.01 * seed, ensemble={"name": "deep_ensemble"}) for seed in range(3)),
]


def test_means_are_over_severities_corruptions_and_foreign_sets() -> None:
    measured = run("sgd", 0, 0.1)
    whole = with_means(measured)
    assert whole.last("motion_blur/ece") == pytest.approx(0.13)
    assert whole.last("impulse_noise/ece") == pytest.approx(0.23)
    assert whole.last("shifted/ece") == pytest.approx((2 * 0.13 + 0.23) / 3)
    assert math.isnan(whole.first("shifted/ece"))  # nothing was measured at the first step
    assert not whole.has("shifted/ece_temperature")  # nor ever
    assert {key: column[-1] for key, column in ood_means(measured).items()} == pytest.approx(
        {"cifar100-5k-c/auroc_ood": 0.73, "svhn-2k/auroc_ood": 0.7}
    )
    assert whole.last("foreign/auroc_ood") == pytest.approx((0.73 + 0.7) / 2)
    assert "foreign/auroc_ood" not in with_means(Trajectory.of(measured.spec, [{"test/ece": 0.1}]))


def test_tables() -> None:
    scores, off, by_corruption, by_severity = outcome(RUNS).tables
    assert scores.columns == (
        "method",
        "accuracy %",
        "ECE %",
        "accuracy % shifted",
        "ECE % shifted",
        "AdaECE % shifted",
        "OOD AUROC % shifted",
        "OOD AUROC % cifar100-5k-c",
        "OOD AUROC % svhn-2k",
        "confidence - accuracy %",
    )
    assert [line[0] for line in scores.rows] == ["sgd", "sam", "sgd + deep_ensemble"]
    assert scores.rows[1][4].mean == pytest.approx(100 * (0.06 * 4 / 3 + 0.03))
    assert off.rows[0][2] == "-5.00 [-5.00, -5.00] (n=3)"
    assert by_corruption.columns[:4] == ("method", "corruption", "accuracy %", "ECE %")
    assert len(by_corruption.rows) == 9
    assert by_corruption.rows[2][:2] == ("sgd", "impulse_noise")
    assert by_corruption.rows[2][3].mean == pytest.approx(25.0)
    assert len(by_severity.rows) == 18
    assert by_severity.rows[1][:3] == ("sgd", "motion_blur", 5)
    assert (by_severity.rows[1][4].mean, by_severity.rows[1][4].n) == (pytest.approx(16.0), 3)
    assert str(by_severity.rows[1][6]) == "-"
    assert by_severity.columns[-1] == by_corruption.columns[-1] == "confidence - accuracy %"
    assert by_severity.rows[1][-1].mean == pytest.approx(100 * (0.75 - 0.61))
    assert str(by_severity.rows[0][-1]) == "-"  # its confidence was not measured


def test_options_are_named_where_names_alone_do_not_tell_methods_apart() -> None:
    def methods(rhos: list[float]) -> list[str]:
        runs = [*RUNS[:3], *(Trajectory.of(sam(rho), [last_row(0.1)]) for rho in rhos)]
        return [str(line[0]) for line in outcome(runs).tables[0].rows]

    def sam(rho: float) -> RunSpec:
        return RunSpec.from_dict({"optimizer": {"name": "sam", "lr": 0.1, "rho": rho}, "budget": 9})

    assert methods([0.1]) == ["sgd", "sam"]
    assert methods([0.1, 0.2]) == ["sgd", "sam rho=0.1", "sam rho=0.2"]


def claims(runs: list[Trajectory]) -> dict[str, Claim]:
    """By id."""
    return {claim.id: claim for claim in outcome(runs).claims}


def test_claims() -> None:
    by_id = claims(RUNS)
    assert 0 < len(by_id) < len(CONTRASTS)  # those whose methods there are
    for id, statement, verdict in (
        (
            "ece-corrupted/optimizers/sam/sgd/motion-blur",
            "SAM is better calibrated than SGD under motion blur",
            HOLDS,
        ),
        ("accuracy-corrupted/optimizers/sam/sgd", "SAM is more accurate than SGD under corruption", FAILS),
        ("auroc-ood/optimizers/sam/sgd", "SAM tells foreign images from its own better than SGD", HOLDS),
        ("ece-ensemble/deep-ensemble/sgd", "an ensemble lowers the ECE of SGD", HOLDS),
        ("ece/sam/sgd", "SAM is better calibrated than SGD on clean images", HOLDS),
    ):
        assert (by_id[id].statement, by_id[id].verdict) == (statement, verdict)
    assert by_id["ece/sam/sgd"].estimate == pytest.approx(-5.0)
    assert "ece-corrupted/losses/csam/acls" not in by_id


def test_every_contrast_has_an_id_of_its_own() -> None:
    assert len({contrast.claim_id for contrast in CONTRASTS}) == len(CONTRASTS)


@pytest.mark.parametrize("better", [True, False])
def test_gains_of_ensembles_are_set_against_each_other(better: bool) -> None:
    def some(optimizer: str, name: str, apart: float) -> list[Trajectory]:
        ensemble = {"name": name}
        return [run(optimizer, seed, 0.02, apart=apart + 0.001 * seed, ensemble=ensemble) for seed in range(3)]

    for name, gain, text in (
        ("deep_ensemble", 0.1, "the gain from an ensemble on foreign images is larger for SAM than for SGD"),
        ("mc_dropout", -0.1, "the harm of MC-Dropout on foreign images is larger for SAM than for SGD"),
    ):
        id = f"auroc-ood-change/{name.replace('_', '-')}/sam/sgd"
        less, more = (0.3 * gain, gain) if better else (gain, 0.3 * gain)
        runs = [*RUNS[:6], *some("sgd", name, 0.7 + less), *some("sam", name, 0.8 + more)]
        claim = claims(runs)[id]
        assert (claim.statement, claim.verdict) == (text, HOLDS if better else FAILS)
        assert claim.measured.startswith(f"OOD AUROC % foreign: {70 * gain * (1 if better else -1):+.2f} ")


@pytest.mark.parametrize(("accuracy", "expected"), [(0.795, HOLDS), (0.77, FAILS)])
def test_almost_as_accurate_is_at_most_a_point_below(accuracy: float, expected: Verdict) -> None:
    runs = [*RUNS]
    for optimizer, value in (("sam", 0.8), ("sgd", accuracy)):
        for seed in (3, 4, 5):
            made = run(optimizer, seed, 0.02, ensemble={"name": "deep_ensemble"})
            changed = np.array([np.nan, value + 0.001 * (seed % 2)])
            runs.append(replace(made, columns={**made.columns, "test/accuracy": changed}))
    claim = claims(runs)["accuracy-close/sgd-deep-ensemble/sam-deep-ensemble"]
    assert claim.statement == "an ensemble of SGD is almost as accurate as one of SAM, at most a point below"
    assert claim.verdict is expected


def test_figure_and_files(tmp_path: Path) -> None:
    figure = severities(RUNS)
    for label in ("motion blur", "impulse noise", "sgd + deep_ensemble", "severity", "ECE"):
        assert f">{label}<" in figure, label
    parts = {"file": None, "axes": {}, "runs": (), "seeds": (0,), "origins": (), "notes": (), "costs": ()}
    about = {"study": "shift", "scale": "s", "title": "t", "about": "a", **parts}
    study = StudyOutcome(**about, outcome=outcome(RUNS), figures=FIGURES)
    write_tables(tmp_path, study)
    write_page(tmp_path, study, RUNS)
    assert (tmp_path / "shift.svg").read_text() == figure
    assert (tmp_path / "by-severity.csv").read_text().count("\n") == 19


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer shift"):
        check(RunSpec.from_dict({"optimizer": {"name": "sgd", "lr": 0.1}, "budget": 9}))


@pytest.mark.parametrize("scale", ["digits", "paper"])
def test_these_scales_have_every_method(scale: str) -> None:
    methods = {spec.method for spec in read_study("shift", scale=scale).specs}
    named = {name for contrast in CONTRASTS for name in (contrast.better, contrast.than)}
    assert methods == named
