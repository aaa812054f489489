import pytest
from surefoot_papers.sam_calibration.comparisons import FLATNESS, METHODS, RHO_GAMMA, SAM_VARIANTS

from surefoot.runs.spec import RunSpec
from surefoot.studies.correlation import Trajectory
from surefoot.studies.study import read_study


def run(optimizer: str, seed: int, loss: str = "cross_entropy", *, options: str = "", **values: float) -> Trajectory:
    """One that ends with these values, a little apart between seeds."""
    named = dict(word.split("=") for word in options.split())
    made = {"name": optimizer, "lr": 0.1} | {key: float(value) for key, value in named.items()}
    spec = RunSpec.from_dict({"optimizer": made, "loss": {"name": loss}, "budget": 9, "seed": seed})
    names = {"hessian_sharpness": "train", "validation_ece": "validation"}
    row = {
        f"{names.get(key, 'test')}/{key.removeprefix('validation_')}": v + 0.0001 * seed for key, v in values.items()
    }
    return Trajectory(spec, [{"step": 9.0, **row}])


def three(*args: str, **values: float | str) -> list[Trajectory]:
    return [run(args[0], seed, *args[1:], **values) for seed in range(3)]  # type: ignore[arg-type]


def told(analysis: object, runs: list[Trajectory]) -> dict[str, tuple[str, str]]:
    rows = analysis.outcome(runs)["claims"].rows  # type: ignore[attr-defined]
    return {row[0]: (row[1], row[2]) for row in rows}


@pytest.mark.parametrize(("ece", "expected"), [(0.105, "holds"), (0.13, "does not hold")])
def test_competitive_is_at_most_a_point_above(ece: float, expected: str) -> None:
    found = told(METHODS, [*three("sam", ece=ece), *three("sgd", "focal", ece=0.1), *three("sgd", ece=0.1)])
    assert found["SAM is competitive with focal loss, its ECE at most a point above"][1] == expected
    assert found["SAM is better calibrated than SGD"][1] == "does not hold"
    assert "SAM is competitive with MIMO, its ECE at most a point above" not in found  # which was not run


@pytest.mark.parametrize(("accuracy", "expected"), [(0.895, "holds"), (0.88, "does not hold")])
def test_about_as_accurate_is_at_most_a_point_below(accuracy: float, expected: str) -> None:
    found = told(METHODS, [*three("sam", accuracy=0.9), *three("csam", accuracy=accuracy)])
    assert found["CSAM is about as accurate as SAM, at most a point below"][1] == expected


@pytest.mark.parametrize("good", [True, False])
def test_losses_against_sgd_and_other_scores(good: bool) -> None:
    one, other = (0.1, 0.2) if good else (0.2, 0.1)
    low = {"ece": one, "accuracy": one, "classwise_ece": one, "ada_ece": one, "ece_temperature": one}
    high = {key: other for key in low}
    runs = [
        *three("sgd", **high, auroc_correct=one),
        *three("sgd", "focal", **low),
        *three("sam", **low, auroc_correct=other),
    ]
    found = told(METHODS, runs)
    for text in (
        "focal loss is better calibrated than SGD",
        "focal loss is less accurate than SGD",
        "SAM has a lower classwise ECE than SGD",
        "SAM has a lower adaptive ECE than SGD",
        "SAM has a lower ECE after temperature scaling than SGD",
        "SAM has a higher AUROC of right against wrong than SGD",
    ):
        assert found[text][1] == ("holds" if good else "does not hold"), text


@pytest.mark.parametrize(("ece", "expected"), [(0.105, "holds"), (0.08, "does not hold")])
def test_bsam_is_not_better_than_sam(ece: float, expected: str) -> None:
    runs = [*three("sam", ece=0.1, accuracy=0.9), *three("bsam", ece=ece), *three("asam", accuracy=0.8)]
    found = told(SAM_VARIANTS, runs)
    text = "bSAM is not better calibrated than SAM, whose ECE is at most a point above"
    assert found[text][1] == expected
    assert found["ASAM is less accurate than SAM"][1] == "holds"


def settings(*, flipped: bool) -> list[Trajectory]:
    """rho 0.05 wants gamma 1, and rho 0.2 SAM; the other way round where flipped. The test set agrees."""
    errors = {0.0: 0.10, 0.5: 0.08, 1.0: 0.06, 2.0: 0.09}
    runs = []
    for rho, upside in ((0.05, flipped), (0.2, not flipped)):
        for gamma, error in errors.items():
            ece = 0.2 - error if upside else error
            name, options = ("csam", f"rho={rho} gamma={gamma}") if gamma else ("sam", f"rho={rho}")
            entropy = rho if not flipped else -rho
            values = {"ece": ece, "validation_ece": ece, "accuracy": 1 - ece, "entropy": entropy}
            runs += three(name, options=options, **values)
    return runs


@pytest.mark.parametrize("flipped", [False, True])
def test_gamma_at_one_rho_and_over_rho(flipped: bool) -> None:
    found = told(RHO_GAMMA, settings(flipped=flipped))
    good, bad = ("does not hold", "holds") if flipped else ("holds", "does not hold")
    assert found["gamma 0.5 is better calibrated than SAM at rho 0.05"][1] == good
    assert found["gamma 0.5 is more accurate than SAM at rho 0.05"][1] == good
    assert found["gamma 1 is better calibrated than gamma 0.5 at rho 0.05"][1] == good
    assert found["gamma 1 is better calibrated than gamma 2 at rho 0.05"][1] == good
    assert found["gamma 1 is less accurate than gamma 0.5 at rho 0.05"][1] == bad
    assert found["gamma 2 is less accurate than gamma 1 at rho 0.05"][1] == good
    assert found["SAM's entropy rises from rho 0.05 to 0.2"][1] == good
    gamma = found["rho 0.05 wants a larger gamma than rho 0.2"]
    assert gamma == (f"{'-' if flipped else '+'}1.00 [{'-1.00, -1.00' if flipped else '+1.00, +1.00'}] (n=3)", good)


def test_tuned_means_chosen_on_the_validation_split() -> None:
    runs = settings(flipped=False)
    text = "CSAM with gamma tuned is better calibrated than SAM at rho 0.05"
    assert told(RHO_GAMMA, runs)[text] == ("-4.00 [-4.00, -4.00] (n=3); gamma 1", "holds")
    for each in runs:  # what is best by validation is now worst on the test set
        each.rows[-1]["test/ece"] = 0.2 - (each.rows[-1]["validation/ece"] or 0)
    measured, verdict = told(RHO_GAMMA, runs)[text]
    assert measured.startswith("+4.00")
    assert verdict == "does not hold"


def test_a_lower_ece_and_a_higher_accuracy_at_once() -> None:
    text = "SAM at rho 0.05 has both a lower ECE and a higher accuracy than SGD"
    plain = three("sgd", ece=0.1, accuracy=0.8)
    for ece, accuracy, expected in ((0.05, 0.9, "holds"), (0.05, 0.7, "does not hold"), (0.2, 0.9, "does not hold")):
        runs = [*plain, *three("sam", options="rho=0.05", ece=ece, accuracy=accuracy)]
        assert told(RHO_GAMMA, runs)[text][1] == expected
    assert told(RHO_GAMMA, [*plain, *three("sam", options="rho=0.05", ece=0.1, accuracy=0.9)])[text][1].startswith(
        "cannot"
    )


@pytest.mark.parametrize("together", [True, False])
def test_ranks_of_methods(together: bool) -> None:
    methods = [("sgd", "cross_entropy"), ("sgd", "focal"), ("sgd", "label_smoothing"), ("sam", "cross_entropy")]
    runs = []
    for place, (optimizer, loss) in enumerate([*methods, ("csam", "cross_entropy")]):
        sharpness = float(place if together else -place)
        runs += three(optimizer, loss, ece=0.1 + 0.01 * place, hessian_sharpness=sharpness)
    found = told(FLATNESS, runs)
    sign, verdict = ("+", "holds") if together else ("-", "does not hold")
    assert found["the better calibrated a method, the flatter its minimum"] == (
        f"rank r over 5 methods {sign}1.00 [{sign}1.00, {sign}1.00] (n=3)",
        verdict,
    )
    assert found["focal loss ends flatter than SGD"][1] == ("does not hold" if together else "holds")
    text = "the better calibrated a method, the flatter its minimum"
    assert text not in told(FLATNESS, runs[:-3])  # four methods


@pytest.mark.parametrize(
    ("name", "analysis"), [("methods", METHODS), ("sam-variants", SAM_VARIANTS), ("rho-gamma", RHO_GAMMA)]
)
def test_digits_have_every_method_that_a_claim_names(name: str, analysis: object) -> None:
    specs = read_study(name, scale="digits").specs
    runs = [Trajectory(spec, [{"step": 1.0}]) for spec in specs if spec.seed == 0]
    rows = analysis.outcome(runs)["claims"].rows  # type: ignore[attr-defined]
    texts = {row[0].partition(" (")[0] for row in rows}
    assert {claim.text for claim in analysis.claims} <= texts  # type: ignore[attr-defined]
