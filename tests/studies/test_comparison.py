import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import load_analysis
from surefoot.studies.claim import Verdict
from surefoot.studies.comparison import Comparison, Contrast, _alike, _options, by_method, judge, method_of
from surefoot.studies.paired import above_zero, below_zero, differences, last

HOLDS, FAILS, UNDECIDED = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE


def run(
    optimizer: dict[str, object], seed: int, ece: float, *, loss: str = "cross_entropy", model: str = "mlp"
) -> Trajectory:
    tree = {"optimizer": {"lr": 0.1, **optimizer}, "budget": 9, "seed": seed, "loss": {"name": loss}}
    tree["model"] = {"name": model}
    rows: list[dict[str, float | None]] = [
        {"step": 0.0, "test/ece": 0.9, "test/accuracy": 0.1},
        {"step": 9.0, "test/ece": ece, "test/accuracy": 0.8},
    ]
    return Trajectory.of(RunSpec.from_dict(tree), rows)


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
    assert below_zero([-1.0, -1.1, -0.9]) is HOLDS
    assert above_zero([-1.0, -1.1, -0.9]) is FAILS
    assert below_zero([-1.0, 1.1, 0.1]) is UNDECIDED
    assert below_zero([-1.0]) is UNDECIDED


def test_verdicts_with_a_limit_allow_for_so_much_on_the_wrong_side() -> None:
    assert below_zero([0.4, 0.5, 0.6], limit=1.0) is HOLDS
    assert below_zero([1.4, 1.5, 1.6], limit=1.0) is FAILS
    assert below_zero([0.4, 0.5, 1.6], limit=1.0) is UNDECIDED
    assert above_zero([-0.4, -0.5, -0.6], limit=1.0) is HOLDS
    assert above_zero([-1.4, -1.5, -1.6], limit=1.0) is FAILS


def test_like_is_compared_with_like() -> None:
    slow, fast = ({"momentum": 0.0}, {"momentum": 0.9})
    groups = by_method(
        [
            run({**method, **options}, seed, ece + 0.01 * seed)
            for method, options, ece in ((SGD, slow, 0.3), (SGD, fast, 0.1), (SAM, slow, 0.2), (SAM, fast, 0.15))
            for seed in range(3)
        ]
    )
    slow_claim, fast_claim = judge(groups, Contrast("better", "test/ece", better="sam", than="sgd"))
    assert slow_claim.setting == "sam rho=0.1 momentum=0.0 against sgd momentum=0.0"
    assert (slow_claim.measured, slow_claim.verdict) == ("ECE %: -10.00 [-10.00, -10.00] (n=3)", HOLDS)
    assert fast_claim.setting == "sam rho=0.1 momentum=0.9 against sgd momentum=0.9"
    assert (fast_claim.measured, fast_claim.verdict) == ("ECE %: +5.00 [+5.00, +5.00] (n=3)", FAILS)
    assert (fast_claim.statement, fast_claim.estimate, fast_claim.n) == ("better", pytest.approx(5.0), (3,))
    assert fast_claim.id == "ece/sam/sgd/sam-rho-0.1-momentum-0.9-against-sgd-momentum-0.9"
    outcome = Comparison().outcome([run for runs in groups.values() for run in runs])
    differ = next(table for table in outcome.tables if table.name == "differences")
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
    groups = by_method([*RUNS[3:6], *others, *RUNS[:3]])
    claims = judge(groups, Contrast("better", "test/ece", better="sam", than="sgd"))
    assert [claim.setting for claim in claims] == ["sam rho=0.1 against sgd momentum=0.9", "sam rho=0.1 against sgd"]


def test_claims_may_name_options_and_set_one_gain_against_another() -> None:
    other = [run({"name": "sam", "rho": 0.2}, seed, 0.02 + 0.01 * seed) for seed in range(3)]
    under_focal = [run(SAM, seed, 0.01 * (seed % 2), loss="focal") for seed in range(3)]
    groups = by_method([*RUNS, *other, *under_focal])
    (claim,) = judge(groups, Contrast("larger is better", "test/ece", better="sam rho=0.2", than="sam rho=0.1"))
    assert (claim.id, claim.setting) == ("ece/sam-rho-0.2/sam-rho-0.1", "")
    assert (claim.measured, claim.verdict) == ("ECE %: -3.00 [-3.00, -3.00] (n=3)", HOLDS)
    assert len(judge(groups, Contrast("SAM is calibrated", "test/ece", better="sam", than="sgd"))) == 2
    assert judge(groups, Contrast("none such", "test/ece", better="sam rho=0.3", than="sgd")) == []
    assert judge(groups, Contrast("none such", "test/ece", better="sam", than="sgd", beyond=("csam", "sgd"))) == []
    for better, than, expected in (("sam + focal", "sgd + focal", HOLDS), ("sam", "sgd", FAILS)):
        beyond = ("sam rho=0.1", "sgd") if expected is HOLDS else ("sam + focal", "sgd + focal")
        (claim,) = judge(groups, Contrast("more", "test/ece", better=f"{better} rho=0.1", than=than, beyond=beyond))
        assert claim.verdict is expected
        assert claim.estimate == pytest.approx(-6.0 if expected is HOLDS else 6.0)


def test_tables_and_claims() -> None:
    analysis = Comparison(
        contrasts=(
            Contrast("SAM is calibrated", "test/ece", better="sam", than="sgd"),
            Contrast("focal is calibrated", "test/ece", better="sgd + focal", than="sgd"),
            Contrast("CSAM is better", "test/ece", better="csam", than="sam"),  # there is none
        )
    )
    outcome = analysis.outcome(RUNS)
    scores, off = outcome.tables
    assert scores.columns == ("method", "accuracy %", "ECE %", "confidence - accuracy %")
    assert scores.rows[1][0] == "sam rho=0.1"
    assert scores.rows[1][2].mean == pytest.approx(6.0)
    assert [row[0] for row in off.rows] == ["sam rho=0.1", "sgd + focal"]
    assert off.rows[0][2] == "-5.00 [-5.00, -5.00] (n=3)"
    assert [claim.id for claim in outcome.claims] == ["ece/sam/sgd", "ece/sgd-focal/sgd"]
    assert [claim.verdict for claim in outcome.claims] == [HOLDS, UNDECIDED]
    assert outcome.claims_table.title == "What is claimed, and what these runs say"
    assert Comparison(title="As the paper says").outcome(RUNS).claims_table.title == "As the paper says"
    blind = {"optimizer": {"name": "sgd", "lr": 0.1}, "budget": 9, "observers": {"calibration": False}}
    with pytest.raises(ValueError, match="needs the observer calibration"):
        analysis.check(RunSpec.from_dict(blind))


def test_networks_and_data_sets_are_compared_each_for_itself() -> None:
    other = [run(o, seed, ece + 0.01 * seed, model="cnn") for o, ece in ((SGD, 0.2), (SAM, 0.3)) for seed in range(3)]
    analysis = Comparison(contrasts=(Contrast("SAM is calibrated", "test/ece", better="sam", than="sgd"),))
    alone, both = analysis.outcome(RUNS), analysis.outcome([*RUNS, *other])
    names = [table.name for table in both.tables]
    assert names == [f"{what}-{net}-on-digits" for net in ("mlp", "cnn") for what in ("scores", "differences")]
    assert [table.rows for table in both.tables[:2]] == [table.rows for table in alone.tables]
    assert both.tables[2].title.startswith("cnn on digits: ")
    assert [(claim.id, claim.setting, claim.verdict) for claim in both.claims] == [
        ("ece/sam/sgd/mlp-on-digits", "mlp on digits", HOLDS),
        ("ece/sam/sgd/cnn-on-digits", "cnn on digits", FAILS),
    ]
    assert [row[0] for row in both.claims_table.rows] == [
        "SAM is calibrated (mlp on digits)",
        "SAM is calibrated (cnn on digits)",
    ]
    assert analysis.outcome([]).claims == ()


def test_a_score_that_was_not_measured_is_left_out() -> None:
    blind = [run(SAM, 3, float("nan")), run(SGD, 3, 0.5)]
    scores, off = Comparison().outcome([*RUNS[:6], *blind]).tables
    assert (scores.rows[1][2].mean, scores.rows[1][2].n) == (pytest.approx(6.0), 3)
    assert off.rows[0][2] == "-5.00 [-5.00, -5.00] (n=3)"
    unmeasured = judge(by_method([*RUNS[:3], *blind]), Contrast("better", "test/ece", better="sam", than="sgd"))
    assert [(claim.estimate, claim.n, claim.verdict) for claim in unmeasured] == [(None, (), UNDECIDED)]


def test_the_module_is_an_analysis_without_claims() -> None:
    analysis = load_analysis("surefoot.studies.comparison")
    outcome = analysis.outcome(RUNS)
    assert [table.name for table in outcome.tables] == ["scores", "differences"]
    assert outcome.claims == ()
    analysis.check(RUNS[0].spec)
