"""What every model in the registry promises."""

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
        states.append(torch.cat([p.reshape(-1) for p in MODELS[name](input_shape=(4,), num_classes=3).parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_the_mlp_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"`widths` must be at least 1 each, got \[3, 0\]"):
        MODELS["mlp"](input_shape=(4,), num_classes=3, widths=(3, 0))
    with pytest.raises(ValueError, match=r"Unknown activation 'tan'\. Did you mean 'tanh'\?"):
        MODELS["mlp"](input_shape=(4,), num_classes=3, activation="tan")
