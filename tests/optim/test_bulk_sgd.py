import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from references.dense import dense_hessian
from surefoot.optim import BulkSGD, DominantSGD
from surefoot.runs.build import build
from surefoot.runs.spec import RunSpec


def trained(name: str, k: int, **options: Any) -> Any:
    return build(
        RunSpec.from_dict(
            {
                "optimizer": {"name": name, "lr": 0.1, "k": k, **options},
                "budget": 1,
                "batch_size": 20,
                "data": {"name": "digits", "num_train": 60},
                "model": {"name": "mlp", "widths": [4]},
                "observers": {"curvature": False},
            }
        )
    )


@pytest.mark.parametrize("k", [1, 3, 5])
def test_the_update_is_orthogonal_to_the_top_of_the_dense_hessian(k: int) -> None:
    training = trained("bulk_sgd", k, tolerance=1e-6, max_products=300)
    training.model.double()
    split = training.splits["train"]
    for name in training.splits:
        object.__setattr__(training.splits[name], "inputs", training.splits[name].inputs.double())
    training.optimizer.subspace.split = split
    training.batches.split = split
    params = list(training.model.parameters())
    for _ in range(3):
        before = nn.utils.parameters_to_vector(params).detach().clone()
        dense = dense_hessian(training.model, nn.CrossEntropyLoss(), split.inputs, split.labels)
        top = torch.linalg.eigh(dense).eigenvectors[:, -k:]
        training.advance()
        update = nn.utils.parameters_to_vector(params).detach() - before
        assert float((top.T @ update).norm() / update.norm()) < 1e-4
        vectors = training.optimizer._vectors
        assert float((vectors @ update).norm() / update.norm()) < 1e-6
    assert 0 < training.optimizer.alignment <= 1
    assert training.observe()["optimizer/alignment"] == training.optimizer.alignment


def bowl(kind: type[BulkSGD], subspace: Any, **options: Any) -> tuple[nn.Parameter, BulkSGD, Any]:
    w = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = kind([w], lr=0.1, subspace=subspace, **options)

    def closure() -> Tensor:
        loss = 0.5 * (w.square() * torch.tensor([1.0, 10.0, 2.0], dtype=torch.float64)).sum()
        loss.backward()
        return loss.detach()

    return w, optimizer, closure


def test_the_two_are_complements_and_vectors_need_not_be_orthonormal() -> None:
    crooked = torch.tensor([[0.0, 5.0, 0.0], [0.0, 3.0, 0.1]], dtype=torch.float64)
    w, bulk, closure = bowl(BulkSGD, lambda: crooked)
    bulk.step(closure)
    assert w.tolist() == pytest.approx([0.9, 1.0, 1.0])
    w, dominant, closure = bowl(DominantSGD, lambda: crooked)
    dominant.step(closure)
    assert w.tolist() == pytest.approx([1.0, 0.0, 0.8])
    assert bulk.alignment == dominant.alignment == pytest.approx((104 / 105) ** 0.5)


class Counting:
    """A subspace that knows how often it was asked, and saves it."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Tensor:
        self.calls += 1
        return torch.eye(3, dtype=torch.float64)[self.calls % 3][None]

    def state_dict(self) -> dict[str, Any]:
        return {"calls": self.calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.calls = state["calls"]


def test_it_is_refreshed_every_so_often_and_resumes_in_between() -> None:
    w, optimizer, closure = bowl(BulkSGD, Counting(), refresh_every=3)
    for _ in range(4):
        optimizer.step(closure)
    assert optimizer.subspace.calls == 2  # type: ignore[attr-defined]
    other, resumed, again = bowl(BulkSGD, Counting(), refresh_every=3)
    other.data.copy_(w)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(4):
        optimizer.step(closure)
        resumed.step(again)
    assert torch.equal(w, other)


def test_vectors_that_say_nothing_new_take_nothing_away() -> None:
    same = torch.tensor([[0.0, 1.0, 0.0], [0.0, 2.0, 0.0]], dtype=torch.float64)
    w, bulk, closure = bowl(BulkSGD, lambda: same)
    bulk.step(closure)
    assert w.tolist() == pytest.approx([0.9, 1.0, 0.8])
    other = copy.deepcopy(bulk)
    assert torch.equal(other._vectors, bulk._vectors)


def test_the_subspace_starts_warm_and_says_how_good_it_is() -> None:
    training = trained("bulk_sgd", 2)
    costs = []
    for _ in range(4):
        before = training.optimizer.subspace._tracker._generator.get_state()
        training.advance()
        assert not torch.equal(before, training.optimizer.subspace._tracker._generator.get_state())
        costs.append(training.optimizer.subspace.num_products)
    assert max(costs[1:]) < costs[0]
    assert 0 <= training.observe()["optimizer/subspace_residual"] <= 0.05


def test_frozen_parameters_have_no_part_in_the_vectors() -> None:
    frozen, w = nn.Parameter(torch.ones(2), requires_grad=False), nn.Parameter(torch.ones(2))
    optimizer = BulkSGD([frozen, w], lr=0.1, subspace=lambda: torch.tensor([[1.0, 0.0]]))

    def closure() -> Tensor:
        loss = w.sum()
        loss.backward()
        return loss.detach()

    optimizer.step(closure)
    assert w.tolist() == pytest.approx([1.0, 0.9])
    assert frozen.tolist() == [1.0, 1.0]


def test_bad_arguments_are_refused() -> None:
    w = nn.Parameter(torch.ones(2))
    plane = lambda: torch.eye(2)[:1]  # noqa: E731
    with pytest.raises(ValueError, match=r"`momentum` must be 0: it would undo the projection; got 0\.9"):
        BulkSGD([w], lr=0.1, subspace=plane, momentum=0.9)
    with pytest.raises(ValueError, match="`refresh_every`"):
        BulkSGD([w], lr=0.1, subspace=plane, refresh_every=0)
    with pytest.raises(ValueError, match="`subspace` must be a function"):
        BulkSGD([w], lr=0.1, subspace=torch.eye(2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`lr`"):
        BulkSGD([w], lr=-0.1, subspace=plane)
    with pytest.raises(ValueError, match=r"finite vectors \[k, 2\], got shape \[1, 3\]"):
        BulkSGD([w], lr=0.1, subspace=lambda: torch.eye(3)[:1]).step()
    with pytest.raises(ValueError, match="`k` must be at least 1"):
        trained("bulk_sgd", 0)
    with pytest.raises(ValueError, match="`max_products`"):
        trained("bulk_sgd", 5, max_products=5)
