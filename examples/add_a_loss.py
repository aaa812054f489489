"""A loss of your own: anything that maps logits and labels to one value per sample.

This one adds a price on large logits to cross-entropy. It trains in surefoot's loop beside every loss that is there,
and is watched by every observer. In the library it would be one file and one line in `surefoot.losses.LOSSES`, and the
tests in `tests/contracts` would apply to it by themselves.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.data import digits
from surefoot.losses import CrossEntropy, Lifted, Loss
from surefoot.models import MLP
from surefoot.training.batches import Batches
from surefoot.training.loop import Training, train
from surefoot.training.observers import CalibrationObserver
from surefoot.training.schedule import Schedule


@dataclass(frozen=True)
class SmallLogits:
    """Cross-entropy + strength * mean_k (z_k - mean z)^2. strength = 0 is cross-entropy."""

    strength: float = 0.05

    def __call__(self, logits: Tensor, labels: Tensor, /) -> Tensor:
        centred = logits - logits.mean(dim=1, keepdim=True)
        return CrossEntropy()(logits, labels) + self.strength * centred.square().mean(dim=1)  # [N]


def trained(loss: Loss) -> dict[str, float]:
    """The last row of a training with the loss."""
    torch.manual_seed(0)
    data = digits(noisy_labels=0.2)
    model = MLP(input_shape=data.input_shape, num_classes=data.num_classes)
    training = Training(
        model=model,
        objective=Lifted(loss),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        batches=Batches(data.train, batch_size=100, seed=0),
        splits={"test": data.test},
        observers={"calibration": CalibrationObserver()},
    )
    rows: list[dict[str, float]] = []
    train(training, budget=600, schedule=Schedule(every=600), record=rows.append)
    return rows[-1]


plain, free, priced = trained(CrossEntropy()), trained(SmallLogits(strength=0.0)), trained(SmallLogits())
for name, row in (("cross-entropy", plain), ("small logits", priced)):
    print(f"{name}: test accuracy {row['test/accuracy']:.3f}, ECE {row['test/ece']:.3f}, one seed")
assert free["test/ece"] == plain["test/ece"]
assert priced["test/ece"] < plain["test/ece"] / 2
