"""What every optimizer in the registry promises."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surefoot.optim import BSAM, OPTIMIZERS, SAM, BulkSGD
from surefoot.runs.build import build
from surefoot.runs.spec import RunSpec

ALL = pytest.mark.parametrize("name", OPTIMIZERS)
FAMILY = [name for name, kind in OPTIMIZERS.items() if issubclass(kind, SAM)]
OPTIONS: dict[str, dict[str, Any]] = {
    "asam": {"rho": 0.05},
    "bsam": {"num_samples": 10**6, "prior_precision": 0.0},
    "bulk_sgd": {"subspace": lambda: torch.tensor([[0.0, 0.0, 1.0]])},
    "dominant_sgd": {"subspace": lambda: torch.eye(3)[:2]},
    "muon": {"adamw_lr": 0.1},
}


def bowl_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return ((logits - 1).square() * torch.tensor([1.0, 2.0, 1.0])).sum(dim=1)


class Bowl:
    """A quadratic with its minimum at 1, and a count of how often it was asked."""

    def __init__(self, name: str, lr: float = 0.1, **options: Any) -> None:
        self.weights = nn.Parameter(torch.tensor([3.0, -2.0, 1.0]))
        options = {**OPTIONS.get(name, {}), **options}
        if name in FAMILY:
            options["loss"] = bowl_loss
        self.optimizer: Any = OPTIMIZERS[name]([self.weights], lr=lr, **options)
        self.calls = 0

    def closure(self) -> Tensor:
        self.calls += 1
        self.optimizer.zero_grad()
        loss = getattr(self.optimizer, "loss", lambda z, y: bowl_loss(z, y).mean())(
            self.weights[None], torch.zeros(1, dtype=torch.long)
        )
        loss.backward()
        return loss.detach()

    def step(self) -> float:
        return float(self.optimizer.step(self.closure))


def passes(name: str) -> int:
    return 2 if issubclass(OPTIMIZERS[name], SAM | BSAM) else 1  # as their papers define a step


@ALL
def test_a_step_returns_the_loss_before_it_and_goes_down(name: str) -> None:
    bowl = Bowl(name)
    assert bowl.step() == pytest.approx(22.0, rel=2e-2 if name == "bsam" else 0)
    for _ in range(400):
        bowl.step()
    assert bowl.calls == 401 * passes(name)
    torch.testing.assert_close(bowl.weights.detach(), torch.ones(3), atol=0.05, rtol=0)


@ALL
def test_the_state_round_trips_bit_for_bit(name: str) -> None:
    first = Bowl(name)
    for _ in range(5):
        first.step()
    second = Bowl(name)
    with torch.no_grad():
        second.weights.copy_(first.weights)
    second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    for _ in range(5):
        first.step()
        second.step()
    assert torch.equal(first.weights, second.weights)


@ALL
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_closure_that_fails_in_any_pass_leaves_the_weights_alone(name: str, error: type[BaseException]) -> None:
    for fails_at in range(1, passes(name) + 1):
        bowl = Bowl(name)
        bowl.step()
        before = bowl.weights.detach().clone()
        bowl.calls = 0

        def failing(bowl: Bowl = bowl, fails_at: int = fails_at) -> Tensor:
            loss = bowl.closure()
            if bowl.calls == fails_at:
                raise error("no luck")
            return loss

        with pytest.raises(error, match="no luck"):
            bowl.optimizer.step(failing)
        assert torch.equal(bowl.weights, before)
        bowl.step()
        assert bowl.weights.isfinite().all()


@ALL
def test_a_scheduler_acts_on_the_steps(name: str) -> None:
    still, moving = Bowl(name), Bowl(name)
    scheduler = torch.optim.lr_scheduler.LambdaLR(still.optimizer, lambda step: float(step == 0))
    moving.step()
    still.step()
    scheduler.step()
    before = still.weights.detach().clone()
    assert torch.equal(moving.weights, before)
    still.step()
    moving.step()
    assert torch.equal(still.weights, before)
    assert not torch.equal(moving.weights, before)


@ALL
def test_digits_are_learnt(name: str) -> None:
    options: dict[str, Any] = {"lr": {"adamw": 0.01, "bsam": 0.5, "muon": 0.05}.get(name, 0.5)}
    if issubclass(OPTIMIZERS[name], BulkSGD):
        options |= {"k": 1 if name == "bulk_sgd" else 10, "refresh_every": 5}
    training = build(
        RunSpec.from_dict(
            {
                "optimizer": {"name": name, **options},
                "budget": 1,
                "data": {"name": "digits", "num_train": 300},
                "model": {"name": "mlp", "widths": [32]},
                "observers": {"curvature": False},
            }
        )
    )
    first = training.observe()["train/loss"]
    for _ in range(60):
        training.advance()
    assert training.num_gradients == 60 * passes(name)
    share = 1 if name == "dominant_sgd" else 0.5  # the steepest directions alone do not learn: Song, Ahn and Yun 2025
    assert training.observe()["train/loss"] < share * first


@ALL
def test_frozen_and_unused_parameters_are_left_alone(name: str) -> None:
    if issubclass(OPTIMIZERS[name], BulkSGD):
        pytest.skip("its subspace is over the parameters given: tested beside it")
    bowl = Bowl(name)
    frozen, unused = nn.Parameter(torch.ones(2), requires_grad=False), nn.Parameter(torch.ones(2))
    group = {"params": [frozen, unused]}
    bowl.optimizer.add_param_group({**group, "rule": "adamw"} if name == "muon" else group)
    bowl.step()
    bowl.step()
    assert frozen.tolist() == unused.tolist() == [1.0, 1.0]
    assert not torch.equal(bowl.weights, torch.tensor([3.0, -2.0, 1.0]))


@ALL
def test_a_copy_and_a_pickle_go_on_alike(name: str) -> None:
    if name in ("bulk_sgd", "dominant_sgd"):
        pytest.skip("the subspace of the bowl is a lambda, which does not pickle: tested beside it")
    bowl = Bowl(name)
    torch.optim.lr_scheduler.StepLR(bowl.optimizer, 100)  # puts a `step` of its own into the optimizer
    bowl.step()
    bowl.step()
    for twice in (copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))):
        other = twice(bowl)
        before = other.step()
        assert before == pytest.approx(bowl_loss(bowl.weights[None], torch.zeros(1)).item(), rel=0.05)
        assert other.optimizer.param_groups[0]["params"][0] is other.weights
        assert not torch.equal(other.weights, bowl.weights)


@ALL
def test_complex_parameters_are_refused(name: str) -> None:
    if not OPTIMIZERS[name].__module__.startswith("surefoot") or name == "gd":
        pytest.skip("PyTorch's own take them")
    with pytest.raises(ValueError, match="Parameters must be real"):
        OPTIMIZERS[name]([nn.Parameter(torch.ones(2, dtype=torch.complex64))], lr=0.1, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", [*FAMILY, "bsam"])
def test_a_step_without_closure_says_what_is_missing(name: str) -> None:
    with pytest.raises(ValueError, match="needs a `closure`"):
        Bowl(name).optimizer.step()


@pytest.mark.parametrize("name", [*FAMILY, "bsam", "bulk_sgd", "muon"])
def test_a_closure_without_backward_and_sparse_gradients_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must call backward"):
        Bowl(name).optimizer.step(lambda: torch.tensor(1.0))
    table = nn.Embedding(4, 2, sparse=True)
    options = {**OPTIONS.get(name, {})}
    if name == "bulk_sgd":
        options["subspace"] = lambda: torch.eye(8)[:1]
    optimizer: Any = OPTIMIZERS[name](table.parameters(), lr=0.1, **options)

    def closure() -> Tensor:
        loss = table(torch.tensor([1, 2])).sum()
        loss.backward()
        return loss.detach()

    with pytest.raises(ValueError, match="needs dense gradients"):
        optimizer.step(closure)


def test_gd_by_hand() -> None:
    bowl = Bowl("gd", lr=0.25)
    bowl.step()
    assert bowl.weights.tolist() == [3.0 - 0.25 * 4.0, -2.0 + 0.25 * 12.0, 1.0]
