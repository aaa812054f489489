import math
from pathlib import Path

import pytest

from references.stand_in import write_stand_ins
from surefoot.diagnosis.bins import stored_bins
from surefoot.report.study import write_page, write_tables
from surefoot.runs.build import build
from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Row, Trajectory
from surefoot.studies.claim import Verdict
from surefoot.studies.paired import last, overconfidence
from surefoot.studies.study import read_study
from surefoot.studies.study_outcome import StudyOutcome
from surefoot_papers.sam_calibration.versus_sgd import FIGURES
from surefoot_papers.sam_calibration.versus_sgd.analysis import along, at_share, check, moments_below, outcome, paired
from surefoot_papers.sam_calibration.versus_sgd.figure import beside

HOLDS, FAILS, UNDECIDED = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE

OBSERVERS = {"curvature": False, "reliability": {}, "posthoc": {"maps": ["temperature", "isotonic"]}}


def run(optimizer: str, seed: int, eces: list[float], *, tce: float, confidence: float, depth: int = 8) -> Trajectory:
    spec = {
        "optimizer": {"name": optimizer, "lr": 0.1},
        "model": {"name": "resnet", "depth": depth},
        "budget": 9,
        "seed": seed,
        "observers": OBSERVERS,
    }
    rows: list[Row] = [
        {
            "step": 10.0 * k,
            "test/ece": ece,
            "test/accuracy": 0.7,
            "test/confidence": confidence,
            "test/ece_temperature": None if k == 0 else tce + 0.001 * seed,
            "test/ece_isotonic": 0.09,
            "test/bin_01_count": 0.0,
            "test/bin_01_right": 0.0,
            "test/bin_02_count": 50.0,
            "test/bin_02_confidence": 0.8,
            "test/bin_02_right": 35.0,
        }
        for k, ece in enumerate(eces)
    ]
    return Trajectory.of(RunSpec.from_dict(spec), rows)


RUNS = [
    *(run("sgd", s, [0.5, 0.1, 0.2, 0.2, 0.2 + 0.01 * s], tce=0.06, confidence=0.9 + 0.01 * s) for s in range(3)),
    *(run("sam", s, [0.5, 0.2, 0.1, 0.1, 0.08 + 0.01 * s], tce=0.05, confidence=0.72) for s in range(3)),
]
OTHER = [run("sgd", s, [0.5, 0.9], tce=0.06, confidence=0.6, depth=20) for s in range(3)]


def test_values_of_a_run() -> None:
    assert overconfidence(RUNS[0]) == pytest.approx(0.2)
    assert along("test/ece")(RUNS[0]) == pytest.approx(0.175)  # without the first
    assert at_share("test/ece", 0.5)(RUNS[0]) == 0.2
    assert at_share("test/ece", 0.25)(RUNS[3]) == 0.2
    assert along("test/ece_temperature")(RUNS[3]) == pytest.approx(0.05)
    assert math.isnan(along("test/never_measured")(RUNS[3]))
    assert math.isnan(at_share("test/ece_temperature", 0.0)(RUNS[3]))  # not measured at the first step
    assert moments_below(RUNS, "sam", "sgd", "test/ece") == (3, 4)
    assert moments_below(RUNS, "csam", "sgd", "test/ece") == (0, 0)


def test_differences_are_paired_by_seed_and_may_be_of_two_quantities() -> None:
    assert paired(RUNS, "sam", last("test/ece"), "sgd") == pytest.approx([-12.0] * 3)
    off = paired(RUNS, "sam", last("test/ece"), "sgd", last("test/ece_temperature"))
    assert off == pytest.approx([2.0, 2.9, 3.8])
    assert paired(RUNS[:5], "sam", last("test/ece"), "sgd") == pytest.approx([-12.0] * 2)


def test_tables_keep_networks_apart() -> None:
    ends, differences, course = outcome([*RUNS, *OTHER]).tables
    assert [row[:2] for row in ends.rows] == [
        ("resnet depth=8 on digits", "sgd"),
        ("resnet depth=8 on digits", "sam"),
        ("resnet depth=20 on digits", "sgd"),
    ]
    assert ends.columns[2:] == (
        "accuracy",
        "confidence - accuracy",
        "ECE",
        "ECE after temperature",
        "ECE after isotonic",
    )
    assert ends.rows[0][4].mean == pytest.approx(21.0)
    assert ends.rows[2][4].mean == pytest.approx(90.0)
    assert len(differences.rows) == 1
    assert differences.rows[0][2] == "-12.00 [-12.00, -12.00] (n=3)"
    assert differences.rows[0][4] == "+0.00 [-2.48, +2.48] (n=3)"  # .08, .09, .10 less .09
    assert course.columns[2:4] == ("ECE at 25%", "ECE at 50%")
    assert course.rows[1][2].mean == pytest.approx(20.0)


def test_claims() -> None:
    by_id = {claim.id: claim for claim in outcome([*RUNS, *OTHER]).claims}
    first, second = "resnet-depth-8-on-digits", "resnet-depth-20-on-digits"
    for id, statement, verdict in (
        (f"overconfidence/sgd/{first}", "SGD is more confident than accurate", HOLDS),
        (f"overconfidence/sgd/{second}", "SGD is more confident than accurate", FAILS),
        (f"confidence-gap/sam/sgd/{first}", "SAM's confidence is nearer to its accuracy", HOLDS),
        (f"ece/sam/sgd/{first}", "SAM has a lower ECE than SGD", HOLDS),
        (f"ece/sam/sgd/{second}", "SAM has a lower ECE than SGD", UNDECIDED),
        (
            f"ece-after-map/temperature/sam/sgd/{first}",
            "SAM as it is has a lower ECE than SGD after temperature",
            FAILS,
        ),
        (
            f"ece-after-map/isotonic/sam/sgd/{first}",
            "SAM as it is has a lower ECE than SGD after isotonic",
            UNDECIDED,
        ),
        (f"along-training/ece/sam/sgd/{first}", "SAM's ECE is lower along training", HOLDS),
        (f"ece-beyond-tce/sam/sgd/{first}", "SAM lowers ECE by more than TCE", HOLDS),
    ):
        assert (by_id[id].statement, by_id[id].verdict) == (statement, verdict)
    close = by_id[f"confidence-close/sam/{first}"]
    assert close.statement == "SAM's confidence is within 2 points of its accuracy"
    assert close.estimate == pytest.approx(2.0)
    assert by_id[f"ece/sam/sgd/{first}"].setting == "resnet depth=8 on digits"
    assert by_id[f"ece/sam/sgd/{first}"].n == (3,)
    assert by_id[f"along-training/ece/sam/sgd/{first}"].measured.endswith("; lower at 3 of 4 moments")
    assert by_id[f"along-training/ece/sam/sgd/{second}"].measured == ""  # SAM has no run there


def test_figure_and_files(tmp_path: Path) -> None:
    runs = [*RUNS, *OTHER[:1], run("sam", 0, [0.3], tce=0.1, confidence=0.7, depth=20)]
    figure = beside(runs)
    for label in (
        "sgd, seed 0",
        "sam, seed 0",
        "test TCE",
        "isotonic",
        "resnet depth=20 on digits",
        "share of samples",
    ):
        assert f">{label}<" in figure, label
    assert figure == beside(runs)
    parts = {"file": None, "axes": {}, "runs": (), "seeds": (0,), "origins": (), "notes": (), "costs": ()}
    about = {"study": "sam-versus-sgd", "scale": "s", "title": "t", "about": "a", **parts}
    study = StudyOutcome(**about, outcome=outcome(RUNS), figures=FIGURES)
    write_tables(tmp_path, study)
    write_page(tmp_path, study, runs)
    assert (tmp_path / "sam_versus_sgd.svg").read_text() == figure
    assert ">sam, seed 0<" in beside([*RUNS, *OTHER])  # a network may lack a method


def test_bins_are_read_from_a_row() -> None:
    (full,) = stored_bins(RUNS[0].at(-1), "test")
    assert (full.left, full.right) == (0.5, 1)
    assert (full.count, full.confidence, full.accuracy) == (50, 0.8, 0.7)
    assert (full.low, full.high) == pytest.approx((0.5624, 0.8090), abs=1e-4)  # Wilson's of 35 of 50
    assert stored_bins({"test/ece": 0.1}, "test") == []


def test_what_the_study_needs_is_checked() -> None:
    tree = {"optimizer": {"name": "sgd", "lr": 0.1}, "budget": 9}
    with pytest.raises(ValueError, match="needs the observer posthoc"):
        check(RunSpec.from_dict(tree))
    with pytest.raises(ValueError, match="needs the post-hoc map temperature"):
        check(RunSpec.from_dict({**tree, "observers": {**OBSERVERS, "posthoc": {"maps": ["isotonic"]}}}))


def test_every_network_of_the_paper_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_stand_ins(tmp_path)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    specs = {spec.network: spec for spec in read_study("sam-versus-sgd", scale="paper").specs}
    assert len(specs) == 8
    sizes = {name: sum(p.numel() for p in build(spec).model.parameters()) for name, spec in specs.items()}
    assert sizes["wide_resnet on cifar10"] == 36_479_194
    assert sizes["resnet depth=20 on cifar100"] < sizes["resnet depth=56 on cifar100"]
