import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.training.schedule import Schedule


@given(every=st.integers(1, 100), per_decade=st.integers(0, 30))
def test_is_the_union_of_its_two_grids(every: int, per_decade: int) -> None:
    schedule = Schedule(every=every, per_decade=per_decade)
    last = 2000
    count = math.ceil(per_decade * math.log10(last)) + 1
    logarithmic = {round(10 ** (k / per_decade)) for k in range(count)} | {0} if per_decade else set()
    expected = {step for step in range(last) if step % every == 0 or step in logarithmic}
    assert {step for step in range(last) if schedule(step)} == expected


def test_is_dense_early_and_thinner_later() -> None:
    schedule = Schedule(every=1000, per_decade=10)
    observed = [sum(schedule(step) for step in range(low, 2 * low)) / low for low in (10, 40, 160, 640)]
    assert observed == sorted(observed, reverse=True)


@pytest.mark.parametrize("bad", [{"every": 0}, {"per_decade": -1}])
def test_refuses(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        Schedule(**bad)
