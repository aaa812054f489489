"""MC-Dropout."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from surefoot.ensembles._convert import Layer, converted
from surefoot.ensembles.ensemble import Ensemble, check_count
from surefoot.losses import Batch, Loss


class MCDropout(Ensemble):
    """A model whose dropout stays on when it predicts; `num_samples` passes are averaged. Gal and Ghahramani 2016.

    Only dropout is in training mode then, not batch norm. The model is copied; one without dropout is refused, and
    `with_dropout` gives it some.

    >>> import torch
    >>> model = with_dropout(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3)), rate=0.1)
    >>> MCDropout(model, num_samples=5).predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(self, model: nn.Module, *, num_samples: int = 5) -> None:
        super().__init__()
        check_count("num_samples", num_samples)
        if not any(_drops(module) for module in model.modules()):
            raise ValueError(
                f"`model` must have dropout layers, got a {type(model).__name__} of none: see `with_dropout`."
            )
        self.model = deepcopy(model)
        self.num_samples = num_samples

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each pass."""
        for _ in range(self.num_samples):
            with _dropping(self.model):
                logits = self.model(inputs)
            yield logits

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The model's losses, of one pass."""
        return loss(self.model(batch.inputs), batch.labels)


def with_dropout(model: nn.Module, *, rate: float) -> nn.Module:
    """A copy of `model` in which every Linear and Conv2d but the first drops a `rate` of its inputs, in training."""
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must lie in [0, 1), got {rate}.")
    first = True

    def replace(layer: Layer) -> nn.Module:
        nonlocal first
        kept, first = first, False
        return layer if kept else nn.Sequential(nn.Dropout(rate), layer)

    return converted(model, replace)


def _drops(module: nn.Module) -> bool:
    return isinstance(module, _DropoutNd) or (isinstance(module, nn.MultiheadAttention) and module.dropout > 0)


@contextmanager
def _dropping(model: nn.Module) -> Iterator[None]:
    before = [(module, module.training) for module in model.modules() if _drops(module)]
    try:
        for module, _ in before:
            module.training = True
        yield
    finally:
        for module, training in before:
            module.training = training
