import torch

from surefoot.data import Split
from surefoot.data.augment import Augment
from surefoot.runs.build import build
from surefoot.runs.spec import RunSpec
from surefoot.training.batches import Batches


def test_augmented_batches_are_a_function_of_the_step_and_keep_their_labels() -> None:
    split = Split(torch.randn(20, 1, 8, 8), torch.arange(20) % 10)
    plain = Batches(split, batch_size=6, seed=1)
    changed = Batches(split, batch_size=6, seed=1, augment=Augment(seed=1))
    for step in (0, 1, 5):
        before, after, again = plain(step), changed(step), changed(step)
        assert torch.equal(before.indices, after.indices)
        assert torch.equal(before.labels, after.labels)
        assert torch.equal(after.inputs, again.inputs)
        assert not torch.equal(before.inputs, after.inputs)
        assert torch.equal(after.inputs, Augment(seed=1)(before.inputs, step=step))
    whole = Batches(split, batch_size=None, seed=1, augment=Augment(seed=1))
    assert not torch.equal(whole(0).inputs, whole(1).inputs)


def test_a_run_augments_images() -> None:
    tree = {
        "optimizer": {"name": "sgd", "lr": 0.1},
        "budget": 5,
        "batch_size": 10,
        "data": {"name": "digits", "num_train": 50, "images": True},
        "model": {"name": "cnn", "widths": [4]},
        "augment": {"name": "images", "padding": 1},
    }
    batches = build(RunSpec.from_dict(tree)).batches
    assert batches.augment == Augment(padding=1, seed=0)
    assert batches(0).inputs.shape == (10, 1, 8, 8)
