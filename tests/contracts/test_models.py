"""What every model in the registry promises."""

import json
from pathlib import Path

import pytest
import torch

from surefoot.models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_logits_in_the_right_shape_on_the_right_device(name: str) -> None:
    for device in ("cpu", "meta"):
        model = MODELS[name](input_shape=(3, 8, 8), num_classes=7).to(device)
        logits = model(torch.zeros(5, 3, 8, 8, device=device))
        assert logits.shape == (5, 7)
        assert logits.device.type == device


@pytest.mark.parametrize("name", MODELS)
def test_the_seed_decides_the_weights(name: str) -> None:
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(
            torch.cat([p.reshape(-1) for p in MODELS[name](input_shape=(3, 8, 8), num_classes=3).parameters()])
        )
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_the_mlp_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"`widths` must be at least 1 each, got \[3, 0\]"):
        MODELS["mlp"](input_shape=(4,), num_classes=3, widths=(3, 0))
    with pytest.raises(ValueError, match=r"Unknown activation 'tan'\. Did you mean 'tanh'\?"):
        MODELS["mlp"](input_shape=(4,), num_classes=3, activation="tan")


@pytest.mark.parametrize(("name", "options"), [("mlp_tanh_3072_200_200", {}), ("resnet20_optA", {"depth": 20})])
@pytest.mark.parametrize("k", [10, 100])
def test_published_numbers_of_parameters(name: str, options: dict[str, int], k: int) -> None:
    counts = json.loads((Path(__file__).parents[1] / "references" / "golden_losses.json").read_text())
    model = MODELS[name.partition("_")[0].rstrip("0123456789")](input_shape=(3, 32, 32), num_classes=k, **options)
    assert sum(p.numel() for p in model.parameters()) == counts["network_param_counts"][f"{name}_K{k}"]


@pytest.mark.parametrize(("depth", "shortcut", "name"), [(20, "B", "resnet20_optB"), (56, "A", "resnet56_optA")])
def test_other_residual_networks(depth: int, shortcut: str, name: str) -> None:
    counts = json.loads((Path(__file__).parents[1] / "references" / "golden_losses.json").read_text())
    model = MODELS["resnet"](input_shape=(3, 32, 32), num_classes=10, depth=depth, shortcut=shortcut)
    assert sum(p.numel() for p in model.parameters()) == counts["network_param_counts"][f"{name}_K10"]


def test_the_resnet_refuses_what_it_cannot_be() -> None:
    for options, message in (
        ({"depth": 21}, "6 n"),
        ({"shortcut": "C"}, "'A' or 'B'"),
        ({"input_shape": (4,)}, "height"),
    ):
        with pytest.raises(ValueError, match=message):
            MODELS["resnet"](**{"input_shape": (3, 8, 8), "num_classes": 3, **options})
