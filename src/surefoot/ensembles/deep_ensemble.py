"""Deep ensemble."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from surefoot.ensembles._seeded import seeded
from surefoot.ensembles.ensemble import Ensemble, check_count
from surefoot.losses import Batch, Loss


class DeepEnsemble(Ensemble):
    """Models of the same kind from different first weights; their probabilities are averaged. Lakshminarayanan 2017.

    `models` are used as given, not copied: trained apart before, on any machine, or together here. The objective is the
    sum over members, so that each has the gradient it would have alone.

    >>> ensemble = DeepEnsemble.built(lambda: nn.Linear(2, 3), num_members=5)
    >>> ensemble.predict(torch.zeros(7, 2)).shape
    torch.Size([7, 3])
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        check_count("models", len(models))
        if len({id(model) for model in models}) < len(models):
            raise ValueError("`models` must be different modules, got one of them twice: it would count double.")
        self.models = nn.ModuleList(models)

    @classmethod
    def built(cls, build: Callable[[], nn.Module], *, num_members: int = 5, seed: int = 0) -> "DeepEnsemble":
        """Members that `build` makes with the global generators at `seed`, `seed` + 1, ..."""
        models = []
        for member in range(num_members):
            with seeded(seed + member):
                models.append(build())
        return cls(models)

    def members(self, inputs: Tensor) -> Iterator[Tensor]:
        """Logits [N, K] of each model."""
        return (model(inputs) for model in self.models)

    def losses(self, batch: Batch, loss: Loss) -> Tensor:
        """The sum of the models' losses."""
        return torch.stack([loss(logits, batch.labels) for logits in self.members(batch.inputs)]).sum(dim=0)
