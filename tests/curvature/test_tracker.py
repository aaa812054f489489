import pytest
import torch
from torch import Tensor, nn

from references.dense import dense_hessian
from surefoot.curvature import GGN, Hessian, SharpnessTracker
from surefoot.losses import MSE, CrossEntropy
from surefoot.models import MLP

SIZE = 60


def measured(tracker: SharpnessTracker, spectrum: Tensor) -> object:
    """A measurement of a linear model whose Gauss-Newton matrix has this spectrum, on the same axes every time."""
    model = nn.Linear(SIZE, 1, bias=False).double()
    inputs = torch.diag((spectrum * SIZE / 2).sqrt())  # MSE of one output: G = (2 / N) sum of x x^T
    return tracker.measure(model, MSE(), inputs, torch.zeros(SIZE, dtype=torch.long))


def spectrum(*outliers: float) -> Tensor:
    values = 0.5 * torch.linspace(0, 1, SIZE, dtype=torch.float64)
    values[: len(outliers)] = torch.tensor(outliers, dtype=torch.float64)
    return values


def test_two_eigenvalues_cross() -> None:
    tracker = SharpnessTracker(tolerance=0.02)
    told = []
    for step in range(41):
        shift = (step - 20) / 40  # from 4.5 and 5.5 to 5.5 and 4.5
        found = measured(tracker, spectrum(5 + shift, 5 - shift))
        truth = 5 + abs(shift)
        assert found.certified
        assert found.value <= truth + 1e-9
        assert found.value == pytest.approx(truth, rel=0.02)
        told.append(found.crossed)
    assert sum(told) == 1
    assert 20 <= told.index(True) <= 23


def test_one_that_rises_from_nowhere_is_found() -> None:
    tracker = SharpnessTracker()
    for _ in range(5):
        quiet = measured(tracker, spectrum(5, 4))
    found = measured(tracker, spectrum(5, 4, 7))  # orthogonal to all that was kept
    assert quiet.gradients < found.gradients
    assert found.certified
    assert found.crossed
    assert found.value == pytest.approx(7, rel=0.02)


def test_stopping_on_the_residual_is_cheaper_and_states_its_risk() -> None:
    bound, residual = SharpnessTracker(), SharpnessTracker(stop="residual")
    for _ in range(5):
        proved, told = (measured(tracker, spectrum(5, 4)) for tracker in (bound, residual))
    assert told.gradients < proved.gradients
    assert told.pairs[0].converged
    assert not told.certified  # at the delta asked for
    assert told.value == pytest.approx(5, rel=0.02)
    assert proved.certified
    assert proved.pairs[0].delta == 0.05
    assert 0.05 < told.pairs[0].delta <= 1


def test_several_are_followed_at_once() -> None:
    tracker = SharpnessTracker(num=3, budget=30)
    for step in range(10):
        values = spectrum(6, 5.5 + step / 10, 4)
        found = measured(tracker, values)
        truth = values.sort(descending=True).values[:3].tolist()
        assert found.certified
        assert [pair.value for pair in found.pairs] == pytest.approx(truth, rel=0.02)


def test_within_its_budget_and_honest_about_it() -> None:
    generator = torch.Generator().manual_seed(0)
    tracker = SharpnessTracker(budget=5, tolerance=1e-4)
    spent, certified = 0.0, []
    for _ in range(30):  # everything turns every time, and the bulk is dense
        model = MLP(input_shape=(20,), num_classes=5, widths=(30,)).double()
        inputs = torch.randn(80, 20, generator=generator, dtype=torch.float64)
        labels = torch.randint(5, (80,), generator=generator)
        found = tracker.measure(model, CrossEntropy(), inputs, labels)
        truth = torch.linalg.eigvalsh(GGN(model, CrossEntropy(), inputs, labels).dense())[-1].item()
        assert found.value <= truth + 1e-9
        if found.certified:
            assert found.value == pytest.approx(truth, rel=1e-4)
        certified.append(found.certified)
        spent += found.gradients
    assert spent <= 30 * 5 + 4 * 5  # what it starts with saved
    assert not all(certified)
    with pytest.raises(ValueError, match="`budget` must be at least 4 gradients"):
        SharpnessTracker(budget=3)


def test_along_training_it_agrees_with_the_dense_matrix() -> None:
    torch.manual_seed(0)
    model = MLP(input_shape=(4,), num_classes=3, widths=(8,)).double()
    inputs, labels = 2 * torch.randn(30, 4, dtype=torch.float64), torch.randint(3, (30,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    largest, smallest = (
        SharpnessTracker(matrix=Hessian, which=which, budget=40)
        for which in ("largest algebraic", "smallest algebraic")
    )
    for _ in range(15):
        for _ in range(5):
            optimizer.zero_grad()
            CrossEntropy()(model(inputs), labels).mean().backward()
            optimizer.step()
        values = torch.linalg.eigvalsh(dense_hessian(model, CrossEntropy(), inputs, labels))
        for tracker, truth in ((largest, values[-1].item()), (smallest, values[0].item())):
            found = tracker.measure(model, CrossEntropy(), inputs, labels)
            assert found.certified
            assert found.value == pytest.approx(truth, rel=0.02, abs=0.02**2 * values[-1].item())
            assert min(found.value, found.bound) - 1e-9 <= truth <= max(found.value, found.bound) + 1e-9


def test_a_saved_tracker_goes_on_alike() -> None:
    first, second = SharpnessTracker(), SharpnessTracker(seed=9)
    measured(first, spectrum(5, 4))
    measured(first, spectrum(5.1, 4.2))
    second.load_state_dict(first.state_dict())
    after = [measured(tracker, spectrum(5.2, 4.4)) for tracker in (first, second)]
    assert after[0].value == after[1].value
    assert after[0].bound == after[1].bound
    assert first.saved == second.saved
    with pytest.raises(ValueError, match="followed 60 weights so far, got 4"):
        first.measure(nn.Linear(2, 2, bias=False), CrossEntropy(), torch.eye(2), torch.tensor([0, 1]))
