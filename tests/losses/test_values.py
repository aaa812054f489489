"""Every loss against numbers worked out elsewhere."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from references.golden import GOLDEN, case, inputs
from surefoot.losses import (
    ACLS,
    CPC,
    DECE,
    FLSD53,
    MDCA,
    MMCE,
    MSE,
    Brier,
    CrossEntropy,
    DualFocal,
    EntropyPenalty,
    Focal,
    LabelSmoothing,
    Loss,
    MbLS,
    SoftBinnedECE,
)
from surefoot.losses._penalised import Penalised

G = GOLDEN
SMOOTHED = G["label_smoothing"]["uniform_incl_true(torch,MbLS,ACLS)"]
OTHERS = G["label_smoothing"]["a_over_K_minus_1(MDCA repo, davda54 sam)"]
MEANS: list[tuple[str, Loss, str, float]] = [
    ("cross-entropy", CrossEntropy(), "B", G["cross_entropy"]["B_mean"]),
    ("cross-entropy", CrossEntropy(), "C", G["cross_entropy"]["C_mean"]),
    ("Brier", Brier(), "A", G["brier_softmax_sum_over_classes"]["A"]),
    ("Brier", Brier(), "B", G["brier_softmax_sum_over_classes"]["B_mean"]),
    ("MSE", MSE(), "A", G["mse_on_raw_logits"]["A"]),
    ("MSE", MSE(), "B", G["mse_on_raw_logits"]["B_mean"]),
    ("MSE, half sum", MSE("half_sum"), "A", G["mse_on_raw_logits"]["cohen2021_half_sum_A"]),
    ("smoothing", LabelSmoothing(0.05), "A", SMOOTHED["A_a0.05"]),
    ("smoothing", LabelSmoothing(0.1), "A", SMOOTHED["A_a0.1"]),
    ("smoothing", LabelSmoothing(0.05), "B", SMOOTHED["B_mean_a0.05"]),
    ("smoothing", LabelSmoothing(0.1), "B", SMOOTHED["B_mean_a0.1"]),
    ("smoothing over others", LabelSmoothing(0.1, "others"), "A", OTHERS["A_a0.1"]),
    ("smoothing over others", LabelSmoothing(0.1, "others"), "B", OTHERS["B_mean_a0.1"]),
    ("MbLS", MbLS(), "C", G["mbls"]["C_margin10_alpha0.1_total"]),
    ("MbLS", MbLS(margin=1.0), "B", G["mbls"]["B_margin1_alpha0.1_total"]),
    ("ACLS", ACLS(), "C", G["acls_code_form"]["C_total_alpha0.1"]),
    ("ACLS", ACLS(margin=1.0), "B", G["acls_code_form"]["B_margin1_total_alpha0.1"]),
    *[("focal", Focal(gamma), "A", G["focal"][f"A_gamma{gamma:g}"]) for gamma in (1.0, 2.0, 3.0)],
    ("focal", Focal(), "B", G["focal"]["B_mean_gamma3"]),
    ("FLSD-53", FLSD53(), "B", G["flsd53"]["B_mean"]),
    ("dual focal", DualFocal(), "A", G["dual_focal"]["A_gamma5"]),
    ("dual focal", DualFocal(2.6), "A", G["dual_focal"]["A_gamma2.6"]),
    ("dual focal", DualFocal(), "B", G["dual_focal"]["B_mean_gamma5"]),
    ("entropy", EntropyPenalty(), "A", G["entropy_penalty"]["A_pereyra_CE-0.1H"]),
    ("entropy", EntropyPenalty(), "B", G["entropy_penalty"]["B_pereyra_CE-0.1H"]),
    ("entropy", EntropyPenalty(0.1 / 3), "B", G["entropy_penalty"]["B_mbls_repo_variant_CE-0.1*mean_over_N*K"]),
    ("MMCE", MMCE(), "B", G["mmce"]["B_total_CE_plus_2*mmce_w_code"]),
    ("MDCA", MDCA(), "B", G["mdca"]["B_CE_plus_1.0*mdca"]),
    ("MDCA with focal", MDCA(base_loss="focal"), "B", G["mdca"]["B_FL1_plus_1.0*mdca"]),
    ("CPC", CPC(), "B", G["cpc"]["B_total_0.1bdc_1.0bec"]),
]
SB, DC = G["soft_binned_ece"], G["dece"]
E = G["mmce_E (3 correct, 2 wrong: discriminates the variants)"]
PENALTIES: list[tuple[str, Penalised, str, float]] = [
    ("MbLS", MbLS(), "C", G["mbls"]["C_margin10_penalty"]),
    ("MbLS", MbLS(margin=1.0), "B", G["mbls"]["B_margin1_penalty"]),
    ("MbLS", MbLS(margin=1.0), "A", G["mbls"]["A_margin1_penalty"]),
    ("ACLS", ACLS(), "C", G["acls_code_form"]["C_margin10_reg"]),
    ("ACLS", ACLS(margin=1.0), "B", G["acls_code_form"]["B_margin1_reg"]),
    ("MMCE m", MMCE(form="m"), "B", G["mmce"]["mmce_m_squared (what the code adds to CE)"]),
    ("MMCE w", MMCE(form="w"), "B", G["mmce"]["mmce_w_paper (single normalised)"]),
    ("MMCE w code", MMCE(), "B", G["mmce"]["mmce_w_official_code (double normalised)"]),
    ("MMCE m", MMCE(form="m"), "E", E["mmce_m_squared"]),
    ("MMCE w", MMCE(form="w"), "E", E["mmce_w_paper"]),
    ("MMCE w code", MMCE(), "E", E["mmce_w_official_code"]),
    ("MDCA", MDCA(), "B", G["mdca"]["B"]),
    ("CPC, discriminating", CPC(exclude=0.0, discriminate=1.0), "A", G["cpc"]["A_bdc"]),
    ("CPC, discriminating", CPC(exclude=0.0, discriminate=1.0), "B", G["cpc"]["B_bdc"]),
    ("CPC, excluding", CPC(discriminate=0.0), "A", G["cpc"]["A_bec"]),
    ("CPC, excluding", CPC(discriminate=0.0), "B", G["cpc"]["B_bec_official_code (i==j included)"]),
    ("SB-ECE", SoftBinnedECE(), "B", SB["B_M15_T0.01"]),
    ("SB-ECE", SoftBinnedECE(num_bins=10, temperature=0.05), "B", SB["B_M10_T0.05"]),
    ("SB-ECE, labels", SoftBinnedECE(form="label_binned"), "B", SB["B_label_binned_squared_M15_T0.01"]),
    ("DECE", DECE(), "B", DC["B_M15_ta100_tb0.01"]),
    ("DECE", DECE(accuracy_slope=10.0), "B", DC["B_ta10"]),
    ("entropy", EntropyPenalty(), "A", -G["entropy_penalty"]["A_entropy"]),
    ("entropy", EntropyPenalty(), "B", -G["entropy_penalty"]["B_mean_entropy"]),
]
PRECISIONS = pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-7), (torch.float32, 2e-5)])


@PRECISIONS
@pytest.mark.parametrize(("name", "loss", "key", "wanted"), MEANS, ids=lambda value: str(value))
def test_mean_and_sum(name: str, loss: Loss, key: str, wanted: float, dtype: torch.dtype, error: float) -> None:
    values = loss(*inputs(key, dtype))
    assert values.mean().item() == pytest.approx(wanted, rel=0, abs=error)
    assert values.sum().item() == pytest.approx(len(values) * wanted, rel=0, abs=len(values) * error)


@PRECISIONS
@pytest.mark.parametrize(("name", "loss", "key", "wanted"), PENALTIES, ids=lambda value: str(value))
def test_penalty(name: str, loss: Penalised, key: str, wanted: float, dtype: torch.dtype, error: float) -> None:
    assert loss.penalty(*inputs(key, dtype)).mean().item() == pytest.approx(wanted, rel=0, abs=error)


def test_sums_as_printed() -> None:
    assert CrossEntropy()(*inputs("B")).sum().item() == pytest.approx(G["cross_entropy"]["B_sum"], abs=1e-7)
    assert Focal()(*inputs("B")).sum().item() == pytest.approx(G["focal"]["B_sum_gamma3"], abs=1e-7)


def same(found: Tensor, wanted: Any, atol: float = 1e-8) -> None:
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=atol)


def test_values_per_sample() -> None:
    same(CrossEntropy()(*inputs("B")), G["cross_entropy"]["B_per_sample"])
    same(Brier()(*inputs("B")), G["brier_softmax_sum_over_classes"]["B_per_sample"])
    flsd = G["flsd53"]
    same(FLSD53()(*case(flsd["inputs"])), flsd["per_sample"])
    assert FLSD53()(*case(flsd["inputs"])).mean().item() == pytest.approx(flsd["mean"], abs=1e-8)
    exponents = torch.tensor(flsd["flsd52_gammas (gamma arg=2)"], dtype=torch.float64)
    p = torch.tensor(flsd["p_true"], dtype=torch.float64)
    wanted = -((1 - p) ** exponents) * p.log()
    torch.testing.assert_close(FLSD53(gamma=2.0)(*case(flsd["inputs"])), wanted, rtol=1e-6, atol=1e-8)
    lowest = G["dual_focal"]["true_class_is_lowest"]
    assert DualFocal()(*case(lowest)).item() == pytest.approx(lowest["gamma5"], abs=1e-7)
    soft = G["dece_soft_case"]
    assert DECE().penalty(*case(soft)).item() == pytest.approx(soft["dece"], abs=1e-7)


@pytest.mark.parametrize(
    ("loss", "key", "wanted", "atol"),
    [
        (CrossEntropy(), "A", G["cross_entropy"]["grad_A"], 1e-8),
        (Brier(), "A", G["brier_softmax_sum_over_classes"]["grad_A"], 2e-6),
        (LabelSmoothing(0.1), "A", SMOOTHED["grad_A_a0.1"], 1e-8),
        (Focal(), "A", G["focal"]["grad_A_gamma3"], 1e-8),
        (DualFocal(), "A", G["dual_focal"]["grad_A_gamma5"], 2e-6),
        (MbLS().penalty, "C", G["mbls"]["grad_C_of_penalty_margin10"], 2e-6),
        (ACLS().penalty, "C", G["acls_code_form"]["grad_of_reg_C_margin10 (max detached in the neg term)"], 1e-8),
    ],
    ids=["cross-entropy", "Brier", "smoothing", "focal", "dual focal", "MbLS", "ACLS"],
)
def test_slopes(loss: Loss, key: str, wanted: Any, atol: float) -> None:
    logits, labels = inputs(key)
    point = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(point, labels).mean(), point)
    same(slope.squeeze(0) if key == "A" else slope, wanted, atol)


def test_acls_does_not_let_a_slope_through_the_largest_in_its_second_term() -> None:
    logits, labels = inputs("C")
    point = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(ACLS().penalty(point, labels).mean(), point)
    wrong = torch.tensor(G["acls_code_form"]["WRONG_if_not_detached_grad_C"], dtype=torch.float64)
    assert (slope - wrong).abs().max() > 0.1
    lowered = ACLS(margin=1.0, low=0.0, above="smallest").penalty(*inputs("A")).item()
    assert lowered == pytest.approx((2.0 - (-1.0) - 1.0) ** 2)  # by hand


@pytest.mark.parametrize(
    "loss",
    [
        Focal(0.0),
        DualFocal(0.0),
        LabelSmoothing(0.0),
        LabelSmoothing(0.0, "others"),
        MbLS(margin=1e9),
        ACLS(margin=1e9),
        MbLS(strength=0.0),
        EntropyPenalty(0.0),
        CPC(strength=0.0),
        MMCE(0.0),
        MDCA(0.0),
        MDCA(0.0, base_loss="focal", gamma=0.0),
        SoftBinnedECE(0.0),
        DECE(0.0),
    ],
    ids=str,
)
def test_what_is_switched_off_leaves_cross_entropy(loss: Loss) -> None:
    for key in ("B", "C", "E"):
        torch.testing.assert_close(loss(*inputs(key)), CrossEntropy()(*inputs(key)))


def test_label_smoothing_is_torchs_own() -> None:
    logits, labels = inputs("E")
    theirs = partial(torch.nn.functional.cross_entropy, reduction="none")
    torch.testing.assert_close(LabelSmoothing(0.3)(logits, labels), theirs(logits, labels, label_smoothing=0.3))
    others = theirs(logits, labels, label_smoothing=0.3 * 3 / 2)  # a K / (K - 1)
    torch.testing.assert_close(LabelSmoothing(0.3, "others")(logits, labels), others)


def test_mse_at_its_optimum_is_hardly_sure() -> None:
    logits = torch.eye(10, dtype=torch.float64)[:1]
    assert MSE()(logits, torch.tensor([0])).item() == 0
    wanted = G["mse_on_raw_logits"]["K10_confidence_at_optimum"]
    assert logits.softmax(dim=1).max().item() == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("form", ["m", "w", "w_code"])
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mmce_of_all_right_and_all_wrong_batches(form: Any, right: bool, dtype: torch.dtype) -> None:
    logits, _ = inputs("E", dtype)
    labels = logits.argmax(dim=1) if right else logits.argmin(dim=1)
    point = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(MMCE(form=form).penalty(point, labels), point)
    assert slope.isfinite().all()
    if form != "m":
        assert MMCE(form=form).penalty(point, labels).item() == E["all_correct_batch_returns"]
        assert not slope.any()


@pytest.mark.parametrize("form", ["m", "w", "w_code"])
def test_mmce_and_its_slope_are_those_of_all_pairs(form: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(40, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (40,), generator=generator)

    def over_all_pairs(z: Tensor) -> Tensor:
        r, guess = z.softmax(dim=1).max(dim=1)
        c = guess == labels
        k = (-(r[:, None] - r[None, :]).abs() / 0.4).exp()
        gap = (c.double() - r).abs()
        if form == "m":
            gap = c.double() - r
            return (gap[:, None] * gap * k).mean()
        parts = [(gap[a][:, None] * gap[b] * k[a][:, b]) for a, b in ((c, c), (~c, ~c), (c, ~c))]
        if form == "w":
            return (parts[0].mean() + parts[1].mean() - 2 * parts[2].mean() + 1e-10).sqrt()
        a, b, cross = (part.mean() / (part.numel() + 1e-5) for part in parts)
        return (a + b - 2 * cross + 1e-10).sqrt()

    point = logits.clone().requires_grad_()
    found, wanted = MMCE(form=form).penalty(point, labels), over_all_pairs(point)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.autograd.grad(found, point), torch.autograd.grad(wanted, point))


def test_cpc_by_all_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(5, 7, generator=generator, dtype=torch.float64)
    labels = torch.randint(7, (5,), generator=generator)
    log_sigmoid = torch.nn.functional.logsigmoid
    for z, y, found in zip(logits, labels, CPC().penalty(logits, labels), strict=True):
        rest = [k for k in range(7) if k != y]
        against = -sum(log_sigmoid(z[y] - z[j]) for j in rest) / 6
        among = -sum(log_sigmoid(z[j] - z[k]) / 2 for j in rest for k in rest) / (6 * 5)
        torch.testing.assert_close(found, 0.1 * against + among)
    with pytest.raises(ValueError, match="at least 3 classes, got 2"):
        CPC()(torch.zeros(1, 2), torch.tensor([0]))


def test_cpc_of_a_thousand_classes_keeps_no_pairs() -> None:
    logits = torch.randn(32, 1000, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(32)
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.untyped_storage().nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = CPC()(logits, labels).mean()
    assert max(kept) <= 32 * 1000 * 8  # all pairs would take 128 MB
    (slope,) = torch.autograd.grad(value, logits)
    few = logits.detach()[:2].clone().requires_grad_()
    (wanted,) = torch.autograd.grad(CPC()(few, labels[:2]).sum() / 32, few)
    torch.testing.assert_close(slope[:2], wanted)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(Focal, -1.0), "`gamma` must be at least 0"),
        (partial(FLSD53, -1.0), "`gamma` must be at least 0"),
        (partial(DualFocal, float("nan")), "`gamma` must be at least 0"),
        (partial(LabelSmoothing, 1.5), r"`smoothing` must lie in \[0, 1\], got 1.5"),
        (partial(LabelSmoothing, over="some"), "`over` must be 'all' or 'others'"),
        (partial(MbLS, margin=-1.0), "`margin` must be at least 0"),
        (partial(ACLS, low=-1.0), "`low` must be at least 0"),
        (partial(ACLS, above="mean"), "`above` must be"),
        (partial(MMCE, form="u"), "`form` must be"),
        (partial(MDCA, base_loss="mse"), "`base_loss` must be"),
        (partial(MDCA, smoothing=2.0), "`smoothing` must lie"),
        (partial(CPC, exclude=-1.0), "`exclude` must be at least 0"),
        (partial(SoftBinnedECE, num_bins=0), "`num_bins` must be at least 1, got 0"),
        (partial(SoftBinnedECE, temperature=0.0), "`temperature` must be positive"),
        (partial(SoftBinnedECE, form="x"), "`form` must be"),
        (partial(DECE, num_bins=0), "`num_bins` must be at least 1"),
        (partial(DECE, bin_temperature=0.0), "`bin_temperature` must be positive"),
        (partial(MSE, "sum"), "`classes` must be"),
    ],
)
def test_options_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
