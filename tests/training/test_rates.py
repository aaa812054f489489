import pytest
import torch

from surefoot.training.rates import RATES, Constant, Cosine, Steps


def test_cosine_is_torchs_at_every_step() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50, eta_min=0.03)
    ours = Cosine(floor=0.1)
    for step in range(50):
        assert 0.3 * ours(step / 50) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()


def test_warm_up_is_a_line_that_meets_the_cosine() -> None:
    rate = Cosine(warm_up=0.2)
    assert [rate(spent) for spent in (0.0, 0.1, 0.2)] == pytest.approx([0.0, 0.5, 1.0])
    assert rate(0.6) == pytest.approx(0.5)
    assert rate(1.0) == pytest.approx(0.0)


@pytest.mark.parametrize("name", RATES)
def test_never_above_the_given_rate_and_never_negative(name: str) -> None:
    rate = RATES[name]()
    assert all(0 <= rate(k / 100) <= 1 for k in range(101))
    assert rate(0.0) == 1


def test_constant() -> None:
    assert Constant()(0.7) == 1


@pytest.mark.parametrize("bad", [lambda: Cosine(warm_up=1.0), lambda: Cosine(floor=-0.1), lambda: Steps(at=(1.0,))])
def test_bad_shares_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="must be at least 0 and below 1"):
        bad()  # type: ignore[operator]
    with pytest.raises(ValueError, match="`factor` must be above 0"):
        Steps(factor=0.0)
