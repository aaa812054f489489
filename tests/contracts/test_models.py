"""What every model in the registry promises."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from references.golden import GOLDEN
from surefoot.curvature import GGN, sharpness
from surefoot.losses import CrossEntropy
from surefoot.models import MODELS

# the one of text takes no images: tests/data/test_python_text.py
ALL = pytest.mark.parametrize("name", [name for name in MODELS if name != "text_transformer"])
SMALL: dict[str, dict[str, Any]] = {  # options that make the large ones small; the others are small as they are
    "cnn": {"widths": (4, 8)},
    "mlp": {"widths": (20,)},
    "pyramidnet": {"depth": 8, "alpha": 7},
    "resnet": {"depth": 8},
    "resnet18": {"width": 2},
    "resnet50": {"width": 2},
    "vit": {"dim": 12, "depth": 2, "heads": 3, "mlp": 16},
    "wide_resnet": {"depth": 10, "width": 1},
}
COUNTS = GOLDEN["network_param_counts"]


def small(name: str, *, num_classes: int = 3, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MODELS[name](input_shape=(3, 8, 8), num_classes=num_classes, **SMALL.get(name, {}))


def used(name: str) -> nn.Module:
    """A model in eval mode whose batch norm has seen something, so that its statistics matter."""
    model = small(name).double()
    model(2 + 3 * images(16))
    return model.eval()


def images(number: int, *, seed: int = 1) -> Tensor:
    return torch.randn(number, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def num_parameters(name: str, **options: Any) -> int:
    with torch.device("meta"):  # nothing is allocated
        return sum(p.numel() for p in MODELS[name](**options).parameters())


@ALL
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_logits_in_the_right_shape_on_the_right_device(name: str, device: str) -> None:
    logits = small(name, num_classes=7).to(device)(torch.zeros(5, 3, 8, 8, device=device))
    assert logits.shape == (5, 7)
    assert logits.device.type == device


@ALL
def test_the_seed_decides_the_weights(name: str) -> None:
    states = [torch.cat([p.reshape(-1) for p in small(name, seed=seed).parameters()]) for seed in (0, 0, 1)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@ALL
def test_a_state_carried_over_gives_the_same_logits_bit_for_bit(name: str) -> None:
    one, other = used(name), small(name, seed=1).double().eval()
    assert not torch.equal(one(images(4)), other(images(4)))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(images(4)), other(images(4)))


@ALL
def test_in_eval_mode_each_sample_has_its_own_logits_always_the_same(name: str) -> None:
    model = used(name)
    logits = model(images(6))
    assert logits.dtype == torch.float64
    assert torch.equal(logits, model(images(6)))
    torch.testing.assert_close(model(images(6)[2:3]), logits[2:3])
    neighbours = images(6).clone()
    neighbours[:2] = 100.0
    torch.testing.assert_close(model(neighbours)[2:], logits[2:])


@ALL
def test_in_training_every_parameter_has_a_gradient(name: str) -> None:
    model = small(name).double()
    CrossEntropy()(model(images(8)), torch.arange(8) % 3).mean().backward()
    for parameter, p in model.named_parameters():
        assert p.grad is not None, parameter
        assert p.grad.isfinite().all(), parameter


@ALL
def test_curvature_is_that_of_finite_differences(name: str) -> None:
    model, labels = used(name), torch.tensor([0, 1, 2, 0])
    curvature = GGN(model, CrossEntropy(), images(4), labels)
    v = torch.randn(curvature.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    v /= v.norm()
    weights, step = curvature.like, 1e-5
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            nn.utils.vector_to_parameters(weights + sign * step * v, model.parameters())
            ends.append(model(images(4)))
        nn.utils.vector_to_parameters(weights, model.parameters())
        pushed = (ends[0] - ends[1]) / (2 * step)  # J v
        p = model(images(4)).softmax(dim=1)
        expected = (p * pushed * pushed).sum() / 4 - ((p * pushed).sum(dim=1) ** 2).sum() / 4
    torch.testing.assert_close(v @ (curvature @ v), expected, rtol=1e-4, atol=1e-12)
    found = sharpness(model, CrossEntropy(), (images(4), labels), max_matvecs=200)
    assert found.converged
    assert found.value >= float(expected)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"mlp", "text_transformer"}))
@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 3, 8, 8), (3, 0, 8)])
def test_models_of_images_refuse_other_shapes(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"`input_shape` must be \(channels, height, width\), each at least 1, got \["):
        MODELS[name](input_shape=shape, num_classes=3)


@pytest.mark.parametrize(
    ("count", "name", "options"),
    [
        ("mlp_tanh_3072_200_200", "mlp", {}),
        ("resnet20_optA", "resnet", {"depth": 20}),
        ("resnet20_optB", "resnet", {"depth": 20, "shortcut": "B"}),
        ("resnet56_optA", "resnet", {"depth": 56}),
        ("resnet56_optB", "resnet", {"depth": 56, "shortcut": "B"}),
        ("resnet18_cifar", "resnet18", {}),
        ("wrn28_10", "wide_resnet", {}),
        ("pyramidnet110_a270_basic", "pyramidnet", {}),
        ("vit_s_p4_img32", "vit", {}),
    ],
)
@pytest.mark.parametrize("k", [10, 100])
def test_published_numbers_of_parameters(count: str, name: str, options: dict[str, Any], k: int) -> None:
    assert num_parameters(name, input_shape=(3, 32, 32), num_classes=k, **options) == COUNTS[f"{count}_K{k}"]


@pytest.mark.parametrize(
    ("count", "name", "size", "k", "options"),
    [
        ("resnet18_imagenet_stem_K200", "resnet18", 64, 200, {"stem": "imagenet"}),
        ("resnet18_cifar_stem_K200", "resnet18", 64, 200, {}),
        ("vit_s16_img224_K1000", "vit", 224, 1000, {"patch": 16}),
        ("vit_s32_img224_K1000", "vit", 224, 1000, {"patch": 32}),
        ("vit_s_p8_img64_K200", "vit", 64, 200, {"patch": 8}),
    ],
)
def test_other_published_numbers_of_parameters(
    count: str, name: str, size: int, k: int, options: dict[str, Any]
) -> None:
    assert num_parameters(name, input_shape=(3, size, size), num_classes=k, **options) == COUNTS[count]


def test_resnet50_has_its_parameters() -> None:
    # By hand. A block of width w from c channels: c w + 9 w^2 + 4 w^2 weights and 12 w of batch norm; the first of a
    # stage also 4 w (c + 2) for its shortcut.
    total, channels = 64 * 3 * 49 + 128, 64
    for width, number in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for place in range(number):
            total += channels * width + 13 * width**2 + 12 * width
            total += 4 * width * (channels + 2) if place == 0 else 0
            channels = 4 * width
    expected = total + 2049 * 1000
    assert num_parameters("resnet50", input_shape=(3, 224, 224), num_classes=1000) == expected
    small_stem = num_parameters("resnet50", input_shape=(3, 32, 32), num_classes=1000, stem="cifar")
    assert small_stem == expected - 64 * 3 * 40


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_the_stem_decides_how_far_the_image_shrinks(name: str) -> None:
    for stem, size in (("cifar", 8), ("imagenet", 2)):
        model = MODELS[name](input_shape=(3, 64, 64), num_classes=3, width=2, stem=stem)
        places = model.get_submodule("blocks")(model.get_submodule("stem")(torch.zeros(1, 3, 64, 64)))
        assert places.shape[2:] == (size, size)


def test_the_widths_of_a_pyramid_grow_in_even_steps() -> None:
    with torch.device("meta"):
        model = MODELS["pyramidnet"](input_shape=(3, 32, 32), num_classes=10)
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert [m.out_channels for m in convolutions[2::2]] == list(range(21, 287, 5))


def test_a_pyramid_halves_odd_images_too() -> None:
    model = MODELS["pyramidnet"](input_shape=(3, 7, 9), num_classes=3, depth=8, alpha=6)
    assert model(torch.zeros(2, 3, 7, 9)).shape == (2, 3)


def test_a_wide_resnet_with_dropout_is_random_in_training_only() -> None:
    torch.manual_seed(0)
    model = MODELS["wide_resnet"](input_shape=(3, 8, 8), num_classes=3, depth=10, width=1, dropout=0.5).double()
    assert not torch.equal(model(images(4)), model(images(4)))
    model.eval()
    assert torch.equal(model(images(4)), model(images(4)))


def block_of(name: str, place: int) -> tuple[nn.Module, list[nn.Module]]:
    """A block in eval mode and, in order, its convolutions and batch norms, those with statistics that matter."""
    block = used(name).get_submodule(f"blocks.{place}")
    return block, [m for m in block.modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d | nn.LayerNorm | nn.Linear)]


def test_a_wide_block_takes_its_shortcut_after_the_first_activation_where_the_shape_changes() -> None:
    inputs = torch.randn(2, 16, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    block, (norm, conv, second, last) = block_of("wide_resnet", 0)
    active = norm(inputs).relu()
    torch.testing.assert_close(block(inputs), last(second(conv(active)).relu()) + inputs)
    block, (norm, conv, second, last, skip) = block_of("wide_resnet", 1)
    active = norm(inputs).relu()
    torch.testing.assert_close(block(inputs), last(second(conv(active)).relu()) + skip(active))


def test_a_pyramid_block_has_no_weights_in_its_shortcut_and_no_activation_at_its_ends() -> None:
    inputs = torch.randn(2, 18, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    block, (norm, conv, second, last, final) = block_of("pyramidnet", 1)  # from 18 to 21 channels, halving
    expected = final(last(second(conv(norm(inputs))).relu()))
    assert expected.shape == (2, 21, 4, 4)
    expected[:, :18, :3, :3] += inputs[:, :, :6, :6].unfold(2, 2, 2).unfold(3, 2, 2).mean(dim=(4, 5))
    expected[:, :18, 3, :3] += inputs[:, :, 6, :6].unfold(2, 2, 2).mean(dim=3)  # the odd row, then the odd column
    expected[:, :18, :3, 3] += inputs[:, :, :6, 6].unfold(2, 2, 2).mean(dim=3)
    expected[:, :18, 3, 3] += inputs[:, :, 6, 6]
    torch.testing.assert_close(block(inputs), expected)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_a_residual_block_ends_in_an_activation_of_the_sum(name: str) -> None:
    block, layers = block_of(name, 2 if name == "resnet18" else 3)  # the first of the second stage
    inputs = torch.randn(2, layers[0].in_channels, 8, 8, dtype=torch.float64)  # type: ignore[arg-type]
    *body, projection, norm = layers
    features = inputs
    for at in range(0, len(body), 2):
        features = body[at + 1](body[at](features if at == 0 else features.relu()))
    torch.testing.assert_close(block(inputs), (features + norm(projection(inputs))).relu())


def test_a_transformer_block_normalises_first() -> None:
    block, (first, _, _, second, wide, narrow) = block_of("vit", 0)
    tokens = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    middle = tokens + block.get_submodule("attend.1")(first(tokens))
    torch.testing.assert_close(block(tokens), middle + narrow(nn.functional.gelu(wide(second(middle)))))


def test_a_transformer_reads_its_class_token_and_knows_places() -> None:
    model = used("vit")
    patches = model.get_submodule("patches")(images(2)).flatten(2).transpose(1, 2)
    token, positions = model.get_parameter("token"), model.get_parameter("positions")
    tokens = torch.cat([token.expand(2, 1, 12), patches], dim=1) + positions
    expected = model.get_submodule("head")(model.get_submodule("norm")(model.get_submodule("blocks")(tokens))[:, 0])
    torch.testing.assert_close(model(images(2)), expected)
    assert not torch.equal(model(images(2)), model(images(2).flip(3)))


def test_attention_is_the_formula() -> None:
    model = used("vit")
    attention = model.get_submodule("blocks.0.attend.1")
    tokens = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    into, out = (attention.get_submodule(part) for part in ("into", "out"))
    query, key, value = into(tokens).split(12, dim=2)
    heads = []
    for at in range(0, 12, 4):  # three heads of four
        scores = query[:, :, at : at + 4] @ key[:, :, at : at + 4].transpose(1, 2) / 2
        heads.append(scores.softmax(dim=2) @ value[:, :, at : at + 4])
    torch.testing.assert_close(attention(tokens), out(torch.cat(heads, dim=2)))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mlp", {"widths": (3, 0)}, r"`widths` must be at least 1 each, got \[3, 0\]"),
        ("mlp", {"activation": "tan"}, r"Unknown activation 'tan'\. Did you mean 'tanh'\?"),
        ("resnet", {"depth": 21}, r"`depth` must be 6 n \+ 2, as in 8, 20 or 56, got 21"),
        ("resnet", {"shortcut": "C"}, "`shortcut` must be 'A' or 'B', got 'C'"),
        ("resnet18", {"stem": "mnist"}, "`stem` must be 'cifar' or 'imagenet', got 'mnist'"),
        ("resnet50", {"width": 0}, "`width` must be at least 1, got 0"),
        ("wide_resnet", {"depth": 20}, r"`depth` must be 6 n \+ 4, as in 10, 16 or 28, got 20"),
        ("wide_resnet", {"width": 0}, "`width` must be at least 1, got 0"),
        ("wide_resnet", {"dropout": 1.0}, r"`dropout` must lie in \[0, 1\), got 1.0"),
        ("pyramidnet", {"depth": 9}, r"`depth` must be 6 n \+ 2, as in 8, 20 or 110, got 9"),
        ("pyramidnet", {"alpha": -1}, "`alpha` must be at least 0, got -1"),
        ("vit", {"patch": 3}, "`patch` must divide the image of 8 x 8, got 3"),
        ("vit", {"patch": 0}, "`patch` must be at least 1, got 0"),
        ("vit", {"dim": 10}, "`dim` must be a multiple of the 6 heads, got 10"),
    ],
)
def test_refuses_what_it_cannot_be(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MODELS[name](input_shape=(3, 8, 8), num_classes=3, **options)
