from dataclasses import replace

import numpy as np
import pytest

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.analysis import figures_of, load_analysis
from surefoot.studies.claim import Claim, Verdict
from surefoot.studies.comparison import Comparison
from surefoot.studies.study import read_study
from surefoot_papers.sam_calibration.combinations.analysis import COMBINATIONS
from surefoot_papers.sam_calibration.flatness.analysis import FLATNESS
from surefoot_papers.sam_calibration.methods.analysis import METHODS
from surefoot_papers.sam_calibration.rho_gamma.analysis import RHO_GAMMA
from surefoot_papers.sam_calibration.variants.analysis import SAM_VARIANTS

HOLDS, FAILS, UNDECIDED = Verdict.REPRODUCED, Verdict.NOT_SEEN, Verdict.INCONCLUSIVE
COMPARISONS = {
    "methods": METHODS,
    "sam-variants": SAM_VARIANTS,
    "combinations": COMBINATIONS,
    "rho-gamma": RHO_GAMMA,
    "flatness": FLATNESS,
}
STUDIES = (*COMPARISONS, "sam-versus-sgd", "shift", "sam-theory")


def run(optimizer: str, seed: int, loss: str = "cross_entropy", *, options: str = "", **values: float) -> Trajectory:
    """One that ends with these values, a little apart between seeds."""
    named = dict(word.split("=") for word in options.split())
    made = {"name": optimizer, "lr": 0.1} | {key: float(value) for key, value in named.items()}
    spec = RunSpec.from_dict({"optimizer": made, "loss": {"name": loss}, "budget": 9, "seed": seed})
    names = {"hessian_sharpness": "train", "validation_ece": "validation"}
    row = {
        f"{names.get(key, 'test')}/{key.removeprefix('validation_')}": v + 0.0001 * seed for key, v in values.items()
    }
    return Trajectory.of(spec, [{"step": 9.0, **row}])


def three(*args: str, **values: float | str) -> list[Trajectory]:
    return [run(args[0], seed, *args[1:], **values) for seed in range(3)]  # type: ignore[arg-type]


def claims(analysis: Comparison, runs: list[Trajectory]) -> dict[str, Claim]:
    """By id."""
    return {claim.id: claim for claim in analysis.outcome(runs).claims}


@pytest.mark.parametrize(("ece", "expected"), [(0.105, HOLDS), (0.13, FAILS)])
def test_competitive_is_at_most_a_point_above(ece: float, expected: Verdict) -> None:
    by_id = claims(METHODS, [*three("sam", ece=ece), *three("sgd", "focal", ece=0.1), *three("sgd", ece=0.1)])
    competitive = by_id["ece-close/sam/sgd-focal"]
    assert competitive.statement == "SAM is competitive with focal loss, its ECE at most a point above"
    assert competitive.verdict is expected
    assert by_id["ece/sam/sgd"].statement == "SAM is better calibrated than SGD"
    assert by_id["ece/sam/sgd"].verdict is FAILS
    assert "ece-close/sam/sgd-mimo" not in by_id  # which was not run


@pytest.mark.parametrize(("accuracy", "expected"), [(0.895, HOLDS), (0.88, FAILS)])
def test_about_as_accurate_is_at_most_a_point_below(accuracy: float, expected: Verdict) -> None:
    by_id = claims(METHODS, [*three("sam", accuracy=0.9), *three("csam", accuracy=accuracy)])
    assert by_id["accuracy-close/csam/sam"].statement == "CSAM is about as accurate as SAM, at most a point below"
    assert by_id["accuracy-close/csam/sam"].verdict is expected


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
    by_id = claims(METHODS, runs)
    for id, statement in {
        "ece/sgd-focal/sgd": "focal loss is better calibrated than SGD",
        "accuracy-cost/sgd-focal/sgd": "focal loss is less accurate than SGD",
        "classwise-ece/sam/sgd": "SAM has a lower classwise ECE than SGD",
        "ada-ece/sam/sgd": "SAM has a lower adaptive ECE than SGD",
        "ece-temperature/sam/sgd": "SAM has a lower ECE after temperature scaling than SGD",
        "auroc-correct/sam/sgd": "SAM has a higher AUROC of right against wrong than SGD",
    }.items():
        assert (by_id[id].statement, by_id[id].verdict) == (statement, HOLDS if good else FAILS)


@pytest.mark.parametrize(("ece", "expected"), [(0.105, HOLDS), (0.08, FAILS)])
def test_bsam_is_not_better_than_sam(ece: float, expected: Verdict) -> None:
    runs = [*three("sam", ece=0.1, accuracy=0.9), *three("bsam", ece=ece), *three("asam", accuracy=0.8)]
    by_id = claims(SAM_VARIANTS, runs)
    text = "bSAM is not better calibrated than SAM, whose ECE is at most a point above"
    assert (by_id["ece-close/sam/bsam"].statement, by_id["ece-close/sam/bsam"].verdict) == (text, expected)
    assert by_id["accuracy-cost/asam/sam"].statement == "ASAM is less accurate than SAM"
    assert by_id["accuracy-cost/asam/sam"].verdict is HOLDS


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
    by_id = claims(RHO_GAMMA, settings(flipped=flipped))
    good, bad = (FAILS, HOLDS) if flipped else (HOLDS, FAILS)
    for id, statement, verdict in (
        ("ece/gamma-0.5/sam", "gamma 0.5 is better calibrated than SAM at rho 0.05", good),
        ("accuracy/gamma-0.5/sam", "gamma 0.5 is more accurate than SAM at rho 0.05", good),
        ("ece/gamma-1/gamma-0.5", "gamma 1 is better calibrated than gamma 0.5 at rho 0.05", good),
        ("ece/gamma-1/gamma-2", "gamma 1 is better calibrated than gamma 2 at rho 0.05", good),
        ("accuracy-cost/gamma-1/gamma-0.5", "gamma 1 is less accurate than gamma 0.5 at rho 0.05", bad),
        ("accuracy-cost/gamma-2/gamma-1", "gamma 2 is less accurate than gamma 1 at rho 0.05", good),
        ("entropy-rises/0.05/0.2", "SAM's entropy rises from rho 0.05 to 0.2", good),
    ):
        assert (by_id[id].statement, by_id[id].verdict) == (statement, verdict)
    gamma = by_id["larger-gamma/0.05/0.2"]
    assert (gamma.statement, gamma.verdict) == ("rho 0.05 wants a larger gamma than rho 0.2", good)
    assert gamma.measured == f"{'-' if flipped else '+'}1.00 [{'-1.00, -1.00' if flipped else '+1.00, +1.00'}] (n=3)"


def test_tuned_means_chosen_on_the_validation_split() -> None:
    runs = settings(flipped=False)
    tuned = claims(RHO_GAMMA, runs)["gamma-tuned/ece/0.05"]
    assert tuned.statement == "CSAM with gamma tuned is better calibrated than SAM at rho 0.05"
    assert (tuned.measured, tuned.verdict) == ("-4.00 [-4.00, -4.00] (n=3); gamma 1", HOLDS)
    turned = [replace(run, columns={**run.columns, "test/ece": 0.2 - run["validation/ece"]}) for run in runs]
    tuned = claims(RHO_GAMMA, turned)["gamma-tuned/ece/0.05"]  # what validation chooses is now worst on the test set
    assert (tuned.estimate, tuned.verdict) == (pytest.approx(4.0), FAILS)
    blind = [replace(run, columns={**run.columns, "validation/ece": np.full(len(run), np.nan)}) for run in runs]
    assert "gamma-tuned/ece/0.05" not in claims(RHO_GAMMA, blind)  # nothing chooses


def test_a_lower_ece_and_a_higher_accuracy_at_once() -> None:
    plain = three("sgd", ece=0.1, accuracy=0.8)
    for ece, accuracy, expected in ((0.05, 0.9, HOLDS), (0.05, 0.7, FAILS), (0.2, 0.9, FAILS), (0.1, 0.9, UNDECIDED)):
        runs = [*plain, *three("sam", options="rho=0.05", ece=ece, accuracy=accuracy)]
        both = claims(RHO_GAMMA, runs)["ece-and-accuracy/0.05"]
        assert both.statement == "SAM at rho 0.05 has both a lower ECE and a higher accuracy than SGD"
        assert both.verdict is expected
        assert both.estimate == pytest.approx(100 * (ece - 0.1), abs=1e-9)


@pytest.mark.parametrize(("entropy", "expected"), [(0.5, HOLDS), (0.3, FAILS)])
def test_entropy_against_sgd_at_each_rho(entropy: float, expected: Verdict) -> None:
    runs = [*three("sgd", entropy=0.4), *three("sam", options="rho=0.2", entropy=entropy)]
    above = claims(RHO_GAMMA, runs)["entropy-above-sgd/0.2"]
    assert (above.statement, above.verdict) == ("SAM at rho 0.2 has a higher entropy than SGD", expected)
    assert (above.estimate, above.n) == (pytest.approx(entropy - 0.4), (3,))


@pytest.mark.parametrize("together", [True, False])
def test_ranks_of_methods(together: bool) -> None:
    methods = [("sgd", "cross_entropy"), ("sgd", "focal"), ("sgd", "label_smoothing"), ("sam", "cross_entropy")]
    runs = []
    for place, (optimizer, loss) in enumerate([*methods, ("csam", "cross_entropy")]):
        sharpness = float(place if together else -place)
        runs += three(optimizer, loss, ece=0.1 + 0.01 * place, hessian_sharpness=sharpness)
    by_id = claims(FLATNESS, runs)
    sign, verdict = ("+", HOLDS) if together else ("-", FAILS)
    rank = by_id["rank-correlation/ece/hessian-sharpness"]
    assert rank.statement == "the better calibrated a method, the flatter its minimum"
    assert rank.measured == f"rank r over 5 methods {sign}1.00 [{sign}1.00, {sign}1.00] (n=3)"
    assert (rank.estimate, rank.verdict, rank.n) == (pytest.approx(1.0 if together else -1.0), verdict, (3,))
    flatter = by_id["hessian-sharpness/sgd-focal/sgd"]
    assert (flatter.statement, flatter.verdict) == ("focal loss ends flatter than SGD", FAILS if together else HOLDS)
    assert rank.id not in claims(FLATNESS, runs[:-3])  # four methods


@pytest.mark.parametrize("name", COMPARISONS)
def test_digits_have_every_method_that_a_claim_names(name: str) -> None:
    specs = read_study(name, scale="digits").specs
    runs = [Trajectory.of(spec, [{"step": 1.0}]) for spec in specs if spec.seed == 0]
    statements = {claim.statement for claim in COMPARISONS[name].outcome(runs).claims}
    assert {contrast.statement for contrast in COMPARISONS[name].contrasts} <= statements


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_brings_a_figure_and_the_paper_s_title(name: str) -> None:
    analysis = load_analysis(read_study(name).analysis)
    assert len(figures_of(analysis)) == 1
    assert analysis.outcome([]).title.startswith("What the paper ")
