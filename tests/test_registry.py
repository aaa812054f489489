import pytest

from surefoot.registry import look_up


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    with pytest.raises(ValueError, match=r"^Unknown loss 'zzz'\. Known: cross_entropy, mse\.$"):
        look_up("loss", "zzz", {"mse": 1, "cross_entropy": 2})
