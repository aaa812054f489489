from pathlib import Path
from typing import Any

import pytest

from surefoot.report.study import write_page, write_tables
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row
from surefoot.studies.correlation import Trajectory
from surefoot.studies.study import read_study
from surefoot_papers.sam_calibration.shift.analysis import CLAIMS, check, foreign_means, outcome, with_means
from surefoot_papers.sam_calibration.shift.figure import severities


def row(ece: float, *, apart: float = 0.7) -> Row:
    """ECE rises with severity by 0.01 from `ece`, under noise from twice that."""
    found: Row = {"step": 9.0, "test/ece": ece, "test/accuracy": 0.8}
    for name, factor in (("motion_blur", 1), ("defocus_blur", 1), ("impulse_noise", 2)):
        for severity in (1, 5):
            where = f"{name}-{severity}"
            found |= {f"{where}/accuracy": 0.5 + ece, f"{where}/ece": factor * ece + severity / 100}
            found |= {f"{where}/confidence": 0.7 + severity / 100} if severity == 5 else {}
            found |= {f"{where}/ada_ece": 0.2, f"{where}/ece_temperature": None, f"{where}/auroc_ood": 0.6}
            found |= {f"cifar100-5k-{where}/auroc_ood": apart + severity / 100}
    return found | {"svhn-2k/auroc_ood": apart, "svhn-2k/confidence": 0.5}


def run(optimizer: str, seed: int, ece: float, **parts: Any) -> Trajectory:
    apart = parts.pop("apart", 0.7)
    tree = {"optimizer": {"name": optimizer, "lr": 0.1}, "budget": 9, "seed": seed, **parts}
    return Trajectory(RunSpec.from_dict(tree), [{"step": 0.0, "test/ece": 0.9}, row(ece, apart=apart)])


RUNS = [
    *(run("sgd", seed, 0.10 + 0.01 * seed) for seed in range(3)),
    *(run("sam", seed, 0.05 + 0.01 * seed, apart=0.8) for seed in range(3)),
    *(run("sgd", seed, 0.02 + 0.01 * seed, ensemble={"name": "deep_ensemble"}) for seed in range(3)),
]


def test_means_are_over_severities_corruptions_and_foreign_sets() -> None:
    found = with_means(row(0.1))
    assert found["motion_blur/ece"] == pytest.approx(0.13)
    assert found["impulse_noise/ece"] == pytest.approx(0.23)
    assert found["shifted/ece"] == pytest.approx((2 * 0.13 + 0.23) / 3)
    assert "shifted/ece_temperature" not in found  # nothing was measured
    assert foreign_means(row(0.1)) == pytest.approx({"cifar100-5k-c/auroc_ood": 0.73, "svhn-2k/auroc_ood": 0.7})
    assert found["foreign/auroc_ood"] == pytest.approx((0.73 + 0.7) / 2)
    assert "foreign/auroc_ood" not in with_means({"test/ece": 0.1})


def test_tables() -> None:
    found = outcome(RUNS)
    scores, off, by_corruption, by_severity = found["tables"]
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
        runs = [*RUNS[:3], *(Trajectory(sam(rho), [row(0.1)]) for rho in rhos)]
        return [str(line[0]) for line in outcome(runs)["tables"][0].rows]

    def sam(rho: float) -> RunSpec:
        return RunSpec.from_dict({"optimizer": {"name": "sam", "lr": 0.1, "rho": rho}, "budget": 9})

    assert methods([0.1]) == ["sgd", "sam"]
    assert methods([0.1, 0.2]) == ["sgd", "sam rho=0.1", "sam rho=0.2"]


def test_claims() -> None:
    told = {line[0]: line[-1] for line in outcome(RUNS)["claims"].rows}
    assert 0 < len(told) < len(CLAIMS)  # those whose methods there are
    assert told["SAM is better calibrated than SGD under motion blur"] == "holds"
    assert told["SAM is more accurate than SGD under corruption"] == "does not hold"
    assert told["SAM tells foreign images from its own better than SGD"] == "holds"
    assert told["an ensemble lowers the ECE of SGD"] == "holds"
    assert "CSAM is better calibrated than ACLS under corruption" not in told


@pytest.mark.parametrize("better", [True, False])
def test_gains_of_ensembles_are_set_against_each_other(better: bool) -> None:
    def some(optimizer: str, name: str, apart: float) -> list[Trajectory]:
        ensemble = {"name": name}
        return [run(optimizer, seed, 0.02, apart=apart + 0.001 * seed, ensemble=ensemble) for seed in range(3)]

    for name, gain, text in (
        ("deep_ensemble", 0.1, "the gain from an ensemble on foreign images is larger for SAM than for SGD"),
        ("mc_dropout", -0.1, "the harm of MC-Dropout on foreign images is larger for SAM than for SGD"),
    ):
        less, more = (0.3 * gain, gain) if better else (gain, 0.3 * gain)
        runs = [*RUNS[:6], *some("sgd", name, 0.7 + less), *some("sam", name, 0.8 + more)]
        rows = {line[0]: line for line in outcome(runs)["claims"].rows}
        assert rows[text][-1] == ("holds" if better else "does not hold")
        assert rows[text][1].startswith(f"OOD AUROC % foreign: {70 * gain * (1 if better else -1):+.2f} ")


@pytest.mark.parametrize(("accuracy", "expected"), [(0.795, "holds"), (0.77, "does not hold")])
def test_almost_as_accurate_is_at_most_a_point_below(accuracy: float, expected: str) -> None:
    runs = [*RUNS]
    for optimizer, value in (("sam", 0.8), ("sgd", accuracy)):
        for seed in (3, 4, 5):
            made = run(optimizer, seed, 0.02, ensemble={"name": "deep_ensemble"})
            made.rows[-1]["test/accuracy"] = value + 0.001 * (seed % 2)
            runs.append(made)
    told = {line[0]: line[-1] for line in outcome(runs)["claims"].rows}
    assert told["an ensemble of SGD is almost as accurate as one of SAM, at most a point below"] == expected


def test_figure_and_files(tmp_path: Path) -> None:
    runs = [(each.spec, each.rows) for each in RUNS]
    figure = severities(runs)
    for label in ("motion blur", "impulse noise", "sgd + deep_ensemble", "severity", "ECE"):
        assert f">{label}<" in figure, label
    assert figure == severities(runs)
    about = {"study": "shift", "scale": "s", "title": "t", "about": "a", "num_runs": {"done": 9}, "not_done": []}
    told = {**about, "seeds": [0], "origins": [], "notes": [], **outcome(RUNS)}
    write_tables(tmp_path, told)
    write_page(tmp_path, told, runs)
    assert (tmp_path / "shift.svg").read_text() == figure
    assert (tmp_path / "by-severity.csv").read_text().count("\n") == 19


def test_what_the_study_needs_is_checked() -> None:
    with pytest.raises(ValueError, match="needs the observer shift"):
        check(RunSpec.from_dict({"optimizer": {"name": "sgd", "lr": 0.1}, "budget": 9}))


@pytest.mark.parametrize("scale", ["digits", "paper"])
def test_these_scales_have_every_method(scale: str) -> None:
    methods = {spec.method for spec in read_study("shift", scale=scale).specs}
    named = {name for claim in CLAIMS for name in (claim.better, claim.than)}
    assert methods == named
