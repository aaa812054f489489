"""Agreement with tools whose requirements conflict with torch's: `make test-peers` runs these in `.venv-peers`."""

import pytest
import torch
from torch import Tensor, nn

from surefoot.curvature import GGN, Hessian, eigenpairs, sharpness
from surefoot.models import MLP


def case() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = MLP(input_shape=(6,), num_classes=4, widths=(7,)).double()
    return model, torch.randn(20, 6, dtype=torch.float64), torch.randint(4, (20,))


@pytest.mark.parametrize(
    "loss", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1)], ids=["ce", "smooth"]
)
@pytest.mark.parametrize("ours", [GGN, Hessian])
def test_products_equal_curvlinops_on_uneven_batches(ours: type[GGN | Hessian], loss: nn.Module) -> None:
    curvlinops = pytest.importorskip("curvlinops")
    model, inputs, labels = case()
    batches = [(inputs[:13], labels[:13]), (inputs[13:], labels[13:])]
    theirs = curvlinops.GGNLinearOperator if ours is GGN else curvlinops.HessianLinearOperator
    operator = theirs(model, loss, list(model.parameters()), batches)
    matrix = ours.over(model, loss, batches)
    for _ in range(3):
        v = torch.randn(matrix.size, dtype=torch.float64)
        torch.testing.assert_close(matrix @ v, operator @ v, rtol=1e-9, atol=1e-12)


def test_eigenvalues_equal_pyhessians_where_it_has_converged() -> None:
    pyhessian = pytest.importorskip("pyhessian")
    model, inputs, labels = case()
    torch.set_default_dtype(torch.float64)  # its vectors are of the default type
    try:
        with pytest.warns(UserWarning, match="create_graph"):
            theirs = pyhessian.hessian(model, nn.CrossEntropyLoss(), data=(inputs, labels), cuda=False)
        values, _ = theirs.eigenvalues(maxIter=5000, tol=1e-10, top_n=2)
    finally:
        torch.set_default_dtype(torch.float32)
        model.zero_grad()
    matrix = Hessian(model, nn.CrossEntropyLoss(), inputs, labels)
    ours = eigenpairs(matrix.__matmul__, matrix.like, num=2, tolerance=1e-8)
    assert [pair.value for pair in ours] == pytest.approx(values, rel=1e-4)


def test_one_step_of_eigenthings_per_eigenvalue_is_not_enough_and_batches_count_alike() -> None:
    """Where it is wrong: one eigenvalue gets two Lanczos steps, and a batch of one sample weighs as much as any."""
    he = pytest.importorskip("hessian_eigenthings")
    model, inputs, labels = case()
    true = sharpness(model, nn.CrossEntropyLoss(), (inputs, labels), matrix=Hessian, tolerance=1e-8).value
    loss = he.supervised_loss(nn.functional.cross_entropy)
    whole = he.HessianOperator(model, [(inputs, labels)], loss)
    assert float(he.lanczos(whole, k=10, seed=0).eigenvalues[0]) == pytest.approx(true, rel=1e-4)
    assert float(he.lanczos(whole, k=1, seed=0).eigenvalues[0]) < 0.9 * true
    uneven = he.HessianOperator(model, [(inputs[:19], labels[:19]), (inputs[19:], labels[19:])], loss)
    assert float(he.lanczos(uneven, k=10, seed=0).eigenvalues[0]) != pytest.approx(true, rel=0.05)
