"""Cheap stand-ins for the margin tail, along training."""

from surefoot.attack import Norm
from surefoot.eval_mode import evaluating
from surefoot.theory import input_gradient_margins, low_rank_sharpness, mini_batch, tail
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.snapshot import Snapshot


class ProxiesObserver(Stateless):
    """Estimates of what the observer `certificates` measures exactly, for a few backward passes each.

    `proxy_batch_*` come from `size` samples, drawn anew at every step; `proxy_low_rank_sharpness` stands for the mean
    sharpness of one sample; `proxy_robust_*` for the tail of the robust margins, by input gradients. The
    `interpolating` ones are 1 where the smallest margin that the estimate knows of is positive.
    """

    quantities: tuple[str, ...] = (
        "proxy_batch_log_moment",
        "proxy_batch_bound_sharpness",
        "proxy_batch_interpolating",
        "proxy_low_rank_sharpness",
        "proxy_robust_log_moment",
        "proxy_robust_interpolating",
    )

    def __init__(self, *, size: int = 64, rank: int = 1, radius: float = 0.0, norm: Norm = "l2", seed: int = 0) -> None:
        if size < 1:
            raise ValueError(f"`size` must be at least 1, got {size}.")
        if rank < 1:
            raise ValueError(f"`rank` must be at least 1, got {rank}.")
        if not radius >= 0:
            raise ValueError(f"`radius` must be at least 0, got {radius}.")
        self._size, self._rank, self._radius, self._norm, self._seed = size, rank, radius, norm, seed

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        row: dict[str, float] = {}
        model = snapshot.model
        for name, split in snapshot.splits.items():
            inputs, labels = split.inputs, split.labels
            with evaluating(model):
                some = mini_batch(model, inputs, labels, size=self._size, seed=self._seed + snapshot.step)
                robust = tail(input_gradient_margins(model, inputs, labels, radius=self._radius, norm=self._norm))
                values = (
                    some.tail.log_moment,
                    some.sharpness_bound,
                    some.tail.interpolating,
                    low_rank_sharpness(model, inputs, rank=self._rank),
                    robust.log_moment,
                    robust.interpolating,
                )
            row |= keyed(name, self.quantities, values)
        return row
