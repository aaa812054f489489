from contextlib import nullcontext

import pytest
import torch

from surefoot.params import displaced, flat, unflat


def test_unflat_inverts_flat() -> None:
    tensors = [torch.randn(2, 3), torch.randn(4), torch.randn(())]
    for back, original in zip(unflat(flat(tensors), tensors), tensors, strict=True):
        torch.testing.assert_close(back, original, rtol=0, atol=0)


def test_unflat_refuses_a_wrong_length() -> None:
    with pytest.raises(ValueError, match=r"shape \[4\], got \[3\]"):
        unflat(torch.zeros(3), [torch.zeros(4)])


@pytest.mark.parametrize("failure", [None, RuntimeError, KeyboardInterrupt])
def test_weights_come_home_to_the_bit(failure: type[BaseException] | None) -> None:
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(50) * 1e-3), torch.nn.Parameter(torch.randn(3, 3) * 1e4)]
    home = [w.detach().clone() for w in weights]
    caught = pytest.raises(failure) if failure else nullcontext()
    with caught, displaced(weights, by=[torch.randn_like(w) * 7 for w in weights]):
        assert not torch.equal(weights[0], home[0])
        if failure:
            raise failure
    assert all(torch.equal(w, h) for w, h in zip(weights, home, strict=True))


def test_weights_come_home_when_the_move_itself_fails() -> None:
    weights = [torch.ones(2), torch.ones(3)]
    with pytest.raises(RuntimeError), displaced(weights, by=[torch.ones(2), torch.ones(5)]):
        pass
    assert weights[0].tolist() == [1.0, 1.0]
