import pytest
from torch import nn

from surefoot.ensembles import DeepEnsemble


def test_one_module_twice_is_refused() -> None:
    model = nn.Linear(2, 3)
    with pytest.raises(ValueError, match="must be different modules, got one of them twice"):
        DeepEnsemble([model, nn.Linear(2, 3), model])
