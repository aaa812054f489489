import torch

from surefoot.data import Split
from surefoot.training.batches import Batches

SPLIT = Split(torch.arange(10.0)[:, None], torch.arange(10))


def test_full_batch_is_the_whole_set_in_order() -> None:
    batches = Batches(SPLIT, batch_size=None, seed=0)
    for step in (0, 7):
        assert batches(step).indices.tolist() == list(range(10))


def test_every_pass_sees_every_sample_once() -> None:
    batches = Batches(SPLIT, batch_size=4, seed=0)
    passes = [torch.cat([batches(3 * number + k).indices for k in range(3)]).tolist() for number in range(4)]
    assert all(sorted(seen) == list(range(10)) for seen in passes)
    assert len({tuple(seen) for seen in passes}) == 4
    batch = batches(5)
    assert batch.labels.tolist() == batch.indices.tolist() == batch.inputs[:, 0].long().tolist()


def test_a_step_has_the_same_batch_whatever_came_before() -> None:
    steps = [9, 0, 4, 4, 1]
    forward = Batches(SPLIT, batch_size=3, seed=5)
    memory = {step: forward(step).indices.tolist() for step in range(10)}
    jumping = Batches(SPLIT, batch_size=3, seed=5)
    assert [jumping(step).indices.tolist() for step in steps] == [memory[step] for step in steps]
    assert Batches(SPLIT, batch_size=3, seed=6)(0).indices.tolist() != memory[0]
