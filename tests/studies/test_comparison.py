import pytest

from surefoot.runs.spec import RunSpec
from surefoot.studies.comparison import Claim, Comparison, _alike, _options, by_method, judged, method_of
from surefoot.studies.correlation import Trajectory
from surefoot.studies.paired import differences, last, verdict


def run(
    optimizer: dict[str, object], seed: int, ece: float, *, loss: str = "cross_entropy", model: str = "mlp"
) -> Trajectory:
    tree = {"optimizer": {"lr": 0.1, **optimizer}, "budget": 9, "seed": seed, "loss": {"name": loss}}
    tree["model"] = {"name": model}
    rows: list[dict[str, float | None]] = [
        {"step": 0.0, "test/ece": 0.9, "test/accuracy": 0.1},
        {"step": 9.0, "test/ece": ece, "test/accuracy": 0.8},
    ]
    return Trajectory(RunSpec.from_dict(tree), rows)


SGD, SAM = {"name": "sgd"}, {"name": "sam", "rho": 0.1}
RUNS = [
    *(run(SGD, seed, 0.10 + 0.01 * seed) for seed in range(3)),
    *(run(SAM, seed, 0.05 + 0.01 * seed) for seed in range(3)),
    *(run(SGD, seed, 0.11 + 0.01 * (seed % 2), loss="focal") for seed in range(3)),
]


def test_methods_have_names() -> None:
    assert method_of(RUNS[3].spec) == "sam rho=0.1"
    assert method_of(RUNS[6].spec) == "sgd + focal"
    assert method_of(RUNS[3].spec, options=False) == "sam"


def test_differences_are_paired_by_seed() -> None:
    assert differences(RUNS[3:6], RUNS[:3], last("test/ece")) == pytest.approx(dict.fromkeys(range(3), -0.05))
    assert differences(RUNS[3:5], RUNS[:3], last("test/ece")) == pytest.approx(dict.fromkeys(range(2), -0.05))
    off = differences(RUNS[3:4], RUNS[:3], last("test/ece"), instead=last("test/accuracy"))
    assert off == pytest.approx({0: -0.75})


def test_verdicts_need_the_whole_interval() -> None:
    assert verdict([-1.0, -1.1, -0.9], lower=True) == "holds"
    assert verdict([-1.0, -1.1, -0.9], lower=False) == "does not hold"
    assert verdict([-1.0, 1.1, 0.1], lower=True) == "cannot tell at this scale"
    assert verdict([-1.0], lower=True) == "cannot tell at this scale"


def test_verdicts_with_a_limit_allow_for_so_much_on_the_wrong_side() -> None:
    assert verdict([0.4, 0.5, 0.6], lower=True, limit=1.0) == "holds"
    assert verdict([1.4, 1.5, 1.6], lower=True, limit=1.0) == "does not hold"
    assert verdict([0.4, 0.5, 1.6], lower=True, limit=1.0) == "cannot tell at this scale"
    assert verdict([-0.4, -0.5, -0.6], lower=False, limit=1.0) == "holds"
    assert verdict([-1.4, -1.5, -1.6], lower=False, limit=1.0) == "does not hold"


def test_like_is_compared_with_like() -> None:
    slow, fast = ({"momentum": 0.0}, {"momentum": 0.9})
    groups = by_method(
        [
            run({**method, **options}, seed, ece + 0.01 * seed)
            for method, options, ece in ((SGD, slow, 0.3), (SGD, fast, 0.1), (SAM, slow, 0.2), (SAM, fast, 0.15))
            for seed in range(3)
        ]
    )
    assert judged(groups, Claim("better", "test/ece", better="sam", than="sgd")) == [
        ("better (sam rho=0.1 momentum=0.0 against sgd momentum=0.0)", "ECE %: -10.00 [-10.00, -10.00] (n=3)", "holds"),
        (
            "better (sam rho=0.1 momentum=0.9 against sgd momentum=0.9)",
            "ECE %: +5.00 [+5.00, +5.00] (n=3)",
            "does not hold",
        ),
    ]
    found = Comparison().outcome([run for runs in groups.values() for run in runs])
    differ = next(table for table in found["tables"] if table.name == "differences")
    assert differ.title.startswith("Difference from sgd, ")
    assert [row[0] for row in differ.rows] == [
        "sam rho=0.1 momentum=0.0 from sgd momentum=0.0",
        "sam rho=0.1 momentum=0.9 from sgd momentum=0.9",
    ]


def test_options_of_different_parts_are_not_one() -> None:
    groups = by_method(
        [
            run(
                {"name": name, "gamma": gamma} if name == "csam" else {"name": name}, seed, 0.1 + 0.01 * seed, loss=loss
            )
            for name, gamma, loss in (("csam", 1.0, "cross_entropy"), ("sgd", 0, "focal"), ("sgd", 0, "dual_focal"))
            for seed in range(2)
        ]
    )
    method = "csam gamma=1.0 + focal gamma=3.0"
    assert _options(method) == {("optimizer", "gamma"): "1.0", ("focal", "gamma"): "3.0"}
    assert _alike(groups, "csam", method) == ["csam gamma=1.0"]


def test_what_nothing_tells_apart_is_compared_with_all_of_it() -> None:
    others = [run({"name": "sgd", "momentum": 0.9}, seed, 0.2 + 0.01 * seed) for seed in range(3)]
    found = judged(by_method([*RUNS[3:6], *others, *RUNS[:3]]), Claim("better", "test/ece", better="sam", than="sgd"))
    assert [row[0] for row in found] == [
        "better (sam rho=0.1 against sgd momentum=0.9)",
        "better (sam rho=0.1 against sgd)",
    ]


def test_claims_may_name_options_and_set_one_gain_against_another() -> None:
    other = [run({"name": "sam", "rho": 0.2}, seed, 0.02 + 0.01 * seed) for seed in range(3)]
    under_focal = [run(SAM, seed, 0.01 * (seed % 2), loss="focal") for seed in range(3)]
    groups = by_method([*RUNS, *other, *under_focal])
    (row,) = judged(groups, Claim("larger is better", "test/ece", better="sam rho=0.2", than="sam rho=0.1"))
    assert row == ("larger is better", "ECE %: -3.00 [-3.00, -3.00] (n=3)", "holds")
    assert len(judged(groups, Claim("SAM is calibrated", "test/ece", better="sam", than="sgd"))) == 2
    assert judged(groups, Claim("none such", "test/ece", better="sam rho=0.3", than="sgd")) == []
    assert judged(groups, Claim("none such", "test/ece", better="sam", than="sgd", beyond=("csam", "sgd"))) == []
    for better, than, expected in (("sam + focal", "sgd + focal", "holds"), ("sam", "sgd", "does not hold")):
        beyond = ("sam rho=0.1", "sgd") if expected == "holds" else ("sam + focal", "sgd + focal")
        found = judged(groups, Claim("more", "test/ece", better=f"{better} rho=0.1", than=than, beyond=beyond))
        assert [line[-1] for line in found] == [expected]
        assert found[0][1].startswith(f"ECE %: {'-6.00' if expected == 'holds' else '+6.00'} ")


def test_tables_and_claims() -> None:
    analysis = Comparison(
        claims=(
            Claim("SAM is calibrated", "test/ece", better="sam", than="sgd"),
            Claim("focal is calibrated", "test/ece", better="sgd + focal", than="sgd"),
            Claim("CSAM is better", "test/ece", better="csam", than="sam"),  # there is none
        )
    )
    found = analysis.outcome(RUNS)
    scores, off = found["tables"]
    assert scores.columns == ("method", "accuracy %", "ECE %", "confidence - accuracy %")
    assert scores.rows[1][0] == "sam rho=0.1"
    assert scores.rows[1][2].mean == pytest.approx(6.0)
    assert [row[0] for row in off.rows] == ["sam rho=0.1", "sgd + focal"]
    assert off.rows[0][2] == "-5.00 [-5.00, -5.00] (n=3)"
    verdicts = [row[-1] for row in found["claims"].rows]
    assert verdicts == ["holds", "cannot tell at this scale"]
    blind = {"optimizer": {"name": "sgd", "lr": 0.1}, "budget": 9, "observers": {"calibration": False}}
    with pytest.raises(ValueError, match="needs the observer calibration"):
        analysis.check(RunSpec.from_dict(blind))


def test_networks_and_data_sets_are_compared_each_for_itself() -> None:
    other = [run(o, seed, ece + 0.01 * seed, model="cnn") for o, ece in ((SGD, 0.2), (SAM, 0.3)) for seed in range(3)]
    claim = Claim("SAM is calibrated", "test/ece", better="sam", than="sgd")
    alone = Comparison(claims=(claim,)).outcome(RUNS)
    found = Comparison(claims=(claim,)).outcome([*RUNS, *other])
    names = [table.name for table in found["tables"]]
    assert names == [f"{what}-{net}-on-digits" for net in ("mlp", "cnn") for what in ("scores", "differences")]
    assert [table.rows for table in found["tables"][:2]] == [table.rows for table in alone["tables"]]
    assert found["tables"][2].title.startswith("cnn on digits: ")
    assert [(row[0], row[-1]) for row in found["claims"].rows] == [
        ("SAM is calibrated (mlp on digits)", "holds"),
        ("SAM is calibrated (cnn on digits)", "does not hold"),
    ]
    assert Comparison(claims=(claim,)).outcome([])["claims"].rows == ()
