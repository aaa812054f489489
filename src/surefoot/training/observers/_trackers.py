"""A tracker of curvature for every split."""

from typing import Any, Literal

from surefoot.curvature import SharpnessTracker, Tracked, subset
from surefoot.losses import Loss
from surefoot.training.snapshot import Diverged, Snapshot


class Trackers:
    """`SharpnessTracker`s of the same options, one per split, made when a split is first seen."""

    def __init__(self, **options: Any) -> None:
        SharpnessTracker(**options)  # refuses what is out of range before anything has run
        self._options = options
        self._of: dict[str, SharpnessTracker] = {}

    def measure(
        self, snapshot: Snapshot, split: str, loss: Loss, *, num_samples: int | Literal["all"] = "all"
    ) -> Tracked:
        """Look at a split of a snapshot, or at some of its samples. Diverged where its curvature is not finite."""
        inputs, labels = snapshot.splits[split].inputs, snapshot.splits[split].labels
        if num_samples != "all" and num_samples < len(labels):
            inputs, labels = subset(inputs, labels, num_samples=num_samples)
        if len(labels) >= snapshot.process_group.count:
            mine = snapshot.process_group.part(len(labels))  # products are summed over processes
            inputs, labels = inputs[mine], labels[mine]
        tracker = self._of.setdefault(split, SharpnessTracker(**self._options))
        try:
            return tracker.measure(snapshot.model, loss, inputs, labels)
        except FloatingPointError as error:
            raise Diverged(f"curvature of the {split} set at step {snapshot.step}: {error}") from None

    def state_dict(self) -> dict[str, Any]:
        """The trackers' states."""
        return {split: tracker.state_dict() for split, tracker in self._of.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._of = {split: SharpnessTracker(**self._options) for split in state}
        for split, tracker in self._of.items():
            tracker.load_state_dict(state[split])
