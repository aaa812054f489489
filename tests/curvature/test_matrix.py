import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from references.dense import dense_ggn, dense_hessian
from surefoot.curvature import GGN, CurvatureMatrix, Hessian, eigenpairs, ggn, subset
from surefoot.losses import MSE, CrossEntropy
from surefoot.models import MLP
from surefoot.params import flat


class Tied(nn.Module):
    """One weight used twice, one frozen, one that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.tanh(self.shared(torch.tanh(self.frozen(self.shared(inputs))))))


class Attention(nn.Module):
    """Self-attention over the four numbers of an input, by the fused function."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 4)
        self.mix = nn.Linear(4, 12)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        query, key, value = self.mix(self.embed(inputs[:, :, None])).chunk(3, dim=-1)
        return self.head(nn.functional.scaled_dot_product_attention(query, key, value).mean(dim=1))


class Normed(nn.Sequential):
    """Batch norm with statistics of its own, in train mode as found."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3))
        self[1].running_mean.copy_(torch.randn(5))
        self[1].running_var.copy_(torch.rand(5) + 0.5)


class Convolved(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3)
        )


def soft(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with smoothed targets."""
    return nn.functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.2)


MODELS = {
    "attention": Attention,
    "normed": Normed,
    "convolved": Convolved,
    "deep": lambda: MLP(input_shape=(4,), num_classes=3, widths=(6, 5)),
    "gelu": lambda: MLP(input_shape=(4,), num_classes=3, widths=(6,), activation="gelu"),
    "linear": lambda: MLP(input_shape=(4,), num_classes=3, widths=()),
    "relu": lambda: MLP(input_shape=(4,), num_classes=3, widths=(7,), activation="relu"),
    "tied": Tied,
}


def case(name: str, seed: int = 0) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(seed)
    model = MODELS[name]().double()
    return model, torch.randn(9, 4, dtype=torch.float64), torch.randint(0, 3, (9,))


KINDS = {"ggn": (GGN, dense_ggn), "hessian": (Hessian, dense_hessian)}
LOSSES = {"ce": CrossEntropy(), "mse": MSE(), "soft": soft, "cubic": lambda z, y: z.pow(3).sum(dim=1) + z[:, 0] * y}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_products_equal_the_dense_matrix(kind: str, name: str, loss: str) -> None:
    model, inputs, labels = case(name)
    matrix, reference = KINDS[kind]
    model.eval()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        dense = reference(model, LOSSES[loss], inputs, labels)
    model.train()
    probes = torch.randn(3, len(dense), dtype=torch.float64)
    for chunk_size in (None, 4):  # nine samples: chunks of 4, 4 and 1
        found = matrix(model, LOSSES[loss], inputs, labels, chunk_size=chunk_size)
        torch.testing.assert_close(torch.stack([found @ v for v in probes]), probes @ dense, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(found @ probes, probes @ dense, rtol=1e-9, atol=1e-11)
    batches = zip(inputs.split(5), labels.split(5), strict=True)  # an iterator, to be read once
    torch.testing.assert_close(
        matrix.over(model, LOSSES[loss], batches) @ probes, probes @ dense, rtol=1e-9, atol=1e-11
    )
    assert found.size == len(dense)


@pytest.mark.parametrize("matrix", [GGN, Hessian])
def test_some_layers_alone(matrix: type[CurvatureMatrix]) -> None:
    model, inputs, labels = case("deep")
    whole = matrix(model, CrossEntropy(), inputs, labels).dense()
    part = matrix(model, CrossEntropy(), inputs, labels, only=lambda name: name.endswith("bias"))
    assert all(name.endswith("bias") for name in part.names)
    sizes = [(p.numel(), name.endswith("bias")) for name, p in model.named_parameters()]
    chosen = torch.cat([torch.full((size,), kept) for size, kept in sizes])
    torch.testing.assert_close(part.dense(), whole[chosen][:, chosen], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", [CrossEntropy(), MSE()], ids=["ce", "mse"])
@pytest.mark.parametrize("name", ["deep", "gelu", "linear", "relu", "tied"])
def test_sharpness_equals_the_dense_matrix(name: str, loss: CrossEntropy | MSE) -> None:
    model, inputs, labels = case(name)
    dense = dense_ggn(model, loss, inputs, labels)
    ggn = GGN(model, loss, inputs, labels)
    probes = torch.randn(1, len(dense), dtype=torch.float64)
    truth = torch.linalg.eigvalsh(dense)[-1].item()
    (found,) = eigenpairs(ggn.__matmul__, probes[0], tolerance=1e-8)
    assert found.converged
    assert found.value == pytest.approx(truth, rel=1e-6)
    residual = (dense @ found.vector - found.value * found.vector).norm().item()
    assert found.residual == pytest.approx(residual, rel=1e-3, abs=1e-9)


def test_mse_logit_hessian_is_two_over_k() -> None:
    inputs = torch.eye(4, dtype=torch.float64)
    model = MLP(input_shape=(4,), num_classes=3, widths=()).double()
    model.layers[1].bias.requires_grad_(False)
    ggn = GGN(model, MSE(), inputs, torch.zeros(4, dtype=torch.long))
    v = torch.randn(12, dtype=torch.float64)
    torch.testing.assert_close(ggn @ v, v * (2 / 3) / 4)  # linear in one-hot inputs: (2/K) I times E[x x^T] = I/4


def test_the_model_is_left_as_found() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3))
    model[2].eval()
    for p in model.parameters():
        p.grad = torch.full_like(p, 7.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    ggn = GGN(
        model,
        CrossEntropy(),
        torch.randn(8, 4, generator=torch.Generator()),
        torch.zeros(8, dtype=torch.long),
    )
    first, second = (ggn @ torch.ones(sum(p.numel() for p in model.parameters())) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert [module.training for module in model] == [True, True, False, True]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(bool((p.grad == 7).all()) for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), generator)


def test_no_tensor_strays_to_another_device() -> None:
    model = MLP(input_shape=(4,), num_classes=3).to("meta")
    for loss in (CrossEntropy(), MSE()):
        ggn = GGN(model, loss, torch.zeros(5, 4, device="meta"), torch.zeros(5, dtype=torch.long, device="meta"))
        image = ggn @ flat([p.detach() for p in ggn.params])
        assert image.device.type == "meta"


def test_a_model_without_trainable_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="requires a gradient"):
        GGN(nn.Flatten(), CrossEntropy(), torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))


def test_a_random_model_is_refused() -> None:
    class Random(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs) + torch.rand(1)

    with pytest.raises(ValueError, match="the same output twice in eval mode"):
        GGN(Random(4, 3), CrossEntropy(), torch.randn(9, 4), torch.zeros(9, dtype=torch.long))


def test_buffers_that_a_model_writes_in_eval_mode_are_put_back() -> None:
    class Counting(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 3)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, inputs: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(inputs)

    model = Counting()
    Hessian(model, CrossEntropy(), torch.randn(9, 4), torch.zeros(9, dtype=torch.long))
    assert model.calls.item() == 0


@pytest.mark.parametrize("matrix", [GGN, Hessian])
def test_a_loss_that_is_not_finite_is_traced_to_its_layer(matrix: type[CurvatureMatrix]) -> None:
    model, inputs, labels = case("deep")
    with torch.no_grad():
        model.layers[3].weight.fill_(float("inf"))
    with pytest.raises(FloatingPointError, match=r"first in layer .layers\.3."):
        matrix(model, CrossEntropy(), inputs, labels)
    with pytest.raises(FloatingPointError, match="first in the input"):
        matrix(case("deep")[0], CrossEntropy(), inputs * float("nan"), labels)


def test_an_operation_without_second_derivative_is_named() -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs):  # type: ignore[no-untyped-def]
            return inputs.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient

    class Model(nn.Linear):
        def forward(self, inputs: Tensor) -> Tensor:
            return Once.apply(super().forward(inputs))

    for kind in (GGN, Hessian):
        with pytest.raises(ValueError, match=r"an operation without a second derivative \(OnceBackward\)"):
            kind(Model(4, 3), CrossEntropy(), torch.randn(9, 4), torch.zeros(9, dtype=torch.long))


def test_bad_requests_are_refused() -> None:
    model, inputs, labels = case("deep")
    with pytest.raises(ValueError, match="is it an iterator that has ended"):
        GGN.over(model, CrossEntropy(), iter([]))
    with pytest.raises(ValueError, match="`chunk_size` must be at least 1, got 0"):
        GGN(model, CrossEntropy(), inputs, labels, chunk_size=0)
    with pytest.raises(ValueError, match=r"`num_samples` must lie in 1\.\.9, got 10"):
        subset(inputs, labels, num_samples=10)


def test_a_subset_is_fixed_by_its_seed() -> None:
    inputs, labels = torch.arange(20.0)[:, None], torch.arange(20)
    first, again, other = (subset(inputs, labels, num_samples=5, seed=seed)[1].tolist() for seed in (1, 1, 2))
    assert first == again == sorted(first)
    assert first != other


class _Cube(torch.autograd.Function):
    """x^3 without a forward derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return 3 * x**2 * slope


class Convolving(nn.Module):
    def __init__(self, cube: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.look = nn.Conv1d(1, 2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.unused = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(6, 3)
        self.cube = cube

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.cube(self.norm(self.look(inputs[:, None]))).flatten(1))


@pytest.mark.parametrize(("cube", "forward"), [(lambda x: x**3, True), (_Cube.apply, False)])
def test_convolutions_go_through_forward_mode_where_it_exists(
    cube: Callable[[Tensor], Tensor], forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = Convolving(cube).double()
    inputs, labels = torch.randn(7, 4, dtype=torch.float64), torch.arange(7) % 3
    model(inputs)  # statistics
    before = {name: value.clone() for name, value in model.state_dict().items()}
    whole = []
    original = ggn.backward_twice

    def counted(logits: Tensor, params: Sequence[Tensor]) -> Any:
        whole.append(len(logits))
        return original(logits, params)

    monkeypatch.setattr(ggn, "backward_twice", counted)
    matrix = GGN(model, nn.CrossEntropyLoss(), inputs, labels, chunk_size=3)
    assert len(whole) == (3 if forward else 6)  # a probe in each chunk, and the whole chunk where forward mode fails
    dense = matrix.dense()
    reference = Convolving(lambda x: x**3).double()
    reference.load_state_dict(before)
    torch.testing.assert_close(dense, dense_ggn(reference.eval(), CrossEntropy(), inputs, labels))
    block = torch.randn(2, matrix.size, dtype=torch.float64)
    torch.testing.assert_close(matrix @ block, block @ dense)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_that_cuts_its_graph_is_multiplied_as_autograd_sees_it() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.look, self.head = nn.Conv1d(1, 2, 2), nn.Linear(6, 3)
            self.hidden = [nn.Parameter(torch.ones(()))]  # read, but not registered

        def forward(self, inputs: Tensor) -> Tensor:
            found = self.look(inputs[:, None]).tanh().flatten(1)
            with torch.no_grad():
                scale = found.std(dim=1, keepdim=True)
            return self.head(found / scale)

    torch.manual_seed(0)
    model = Cut().double()
    inputs, labels = torch.randn(7, 4, dtype=torch.float64), torch.arange(7) % 3
    matrix = GGN(model, nn.CrossEntropyLoss(), inputs, labels)
    dense = matrix.dense()
    torch.testing.assert_close(dense, dense.T)
    with torch.inference_mode():
        vector = torch.ones(matrix.size, dtype=torch.float64)
        assert float((matrix @ vector).norm()) > 0
    plain = GGN(Convolving(lambda x: x).double(), nn.CrossEntropyLoss(), inputs, labels)
    whole = plain @ torch.ones(plain.size, dtype=torch.float64)
    with torch.inference_mode():
        torch.testing.assert_close(plain @ torch.ones(plain.size, dtype=torch.float64), whole)


@pytest.mark.parametrize("kind", [GGN, Hessian])
@pytest.mark.parametrize("convolves", [False, True])
def test_a_matrix_and_its_graph_go_as_soon_as_nobody_holds_it(kind: type[CurvatureMatrix], convolves: bool) -> None:
    model = Convolving(torch.tanh) if convolves else MLP(input_shape=(4,), num_classes=3, widths=(5,))
    inputs, labels = torch.randn(7, 4), torch.arange(7) % 3
    gc.collect()
    gc.disable()
    try:
        matrix = kind(model, nn.CrossEntropyLoss(), inputs, labels)
        matrix @ matrix.like
        gone = weakref.ref(matrix)
        part = weakref.ref(matrix._parts[0][1].product)
        del matrix
        assert gone() is None
        assert part() is None
    finally:
        gc.enable()
