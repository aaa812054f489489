"""The run folder of a training that surefoot watches and does not do itself."""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from surefoot.runs.folder import RunFolder
from surefoot.runs.provenance import hardware, versions
from surefoot.runs.spec import DEFAULT_OBSERVERS, RunSpec
from surefoot.runs.toml import to_toml
from surefoot.watch.optimizer_tree import OWN, gradients_per_step, optimizer_tree


class WatchedFolder:
    """Writes `run.json` and `metrics.jsonl`; numbers that come for the same step become one row."""

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.run = RunFolder(Path(path))
        self._overwrite = overwrite
        self._record: dict[str, Any] = {"id": secrets.token_hex(6)}
        self._begun = time.monotonic()
        self._before = 0  # bytes of metrics.jsonl up to the last row
        self._row: dict[str, float] = {}

    def check(self) -> None:
        """Raise ValueError where the folder holds a run and `overwrite` is off."""
        if self.run.status != "absent" and not self._overwrite:
            raise ValueError(
                f"`folder` holds a run already, {self.run.path}: give another, load the state of the watch that wrote "
                "it, or pass `overwrite=True`."
            )

    def begin(self, spec: RunSpec, *, num_steps: int | None) -> None:
        """Make the folder a fresh run's, or, with rows to go on from, that run's again."""
        self.run.path.mkdir(parents=True, exist_ok=True)
        if not self._row:
            self.run.metrics.unlink(missing_ok=True)
        self._record |= {"label": spec.label, "seed": spec.seed, "device": spec.device, "spec": spec.to_dict()}
        self._record |= {"versions": versions(), "hardware": hardware(), "watched": {"num_steps": num_steps}}
        self.write("running")

    def add(self, row: Mapping[str, float]) -> None:
        """Append a row, or add to the last one if that is of the same step."""
        if self._row.get("step") == row["step"]:
            self._row |= row
            self.run.cut(self.run.metrics, self._before)
        else:
            self._row = dict(row)
            self._before = self.run.metrics.stat().st_size if self.run.metrics.exists() else 0
        self.run.append(self._row)

    def write(self, status: str, reason: str = "", *, seconds_observing: float = 0.0) -> None:
        """Replace run.json."""
        self._record |= {"status": status, "reason": reason, "seconds": round(time.monotonic() - self._begun, 3)}
        self._record |= {"seconds_observing": round(seconds_observing, 3)}
        self._record |= {"step": self._row.get("step", 0), "gradients": self._row.get("gradients", 0)}
        self.run.write_record(self._record)

    def state_dict(self) -> dict[str, Any]:
        """Which run, how far its rows go, and the last of them."""
        length = self.run.metrics.stat().st_size if self._row else 0
        seconds = time.monotonic() - self._begun
        return {
            "id": self._record["id"],
            "length": length,
            "before": self._before,
            "row": self._row,
            "seconds": seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind those rows: later ones are dropped; a folder without a run begins one."""
        self._begun = time.monotonic() - state["seconds"]
        if self.run.status == "absent":
            return
        if self.run.record["id"] != state["id"]:
            raise ValueError(f"`folder` holds another run than the state is of, {self.run.path}: give that one's.")
        if not self.run.cut(self.run.metrics, state["length"]):
            raise ValueError(f"{self.run.metrics} is shorter than the state of the watch says.")
        self._record["id"], self._before, self._row = state["id"], state["before"], dict(state["row"])
        self._overwrite = True


def watched_spec(
    model: nn.Module,
    loss: Any,
    optimizer: Optimizer | None,
    *,
    observers: Mapping[str, Mapping[str, Any]],
    batch_size: int | None,
    num_steps: int | None,
    every: int,
    seed: int,
) -> RunSpec:
    """A training of somebody else as a spec, for tables and pages; it cannot be run."""
    device = next((p.device.type for p in model.parameters()), "cpu")
    tree: dict[str, Any] = {
        "optimizer": optimizer_tree(optimizer),
        "budget": max(1, (num_steps or 1) * gradients_per_step(optimizer)),
        "data": {"name": OWN},
        "model": {"name": type(model).__name__},
        "loss": {"name": "cross_entropy" if "CrossEntropy" in type(loss).__name__ else type(loss).__name__},
        "rate": {"name": OWN},
        "batch_size": batch_size or 1,
        "seed": seed,
        "device": device if device in ("cpu", "cuda", "mps") else "auto",
        "num_threads": torch.get_num_threads(),
        "schedule": {"every": every, "per_decade": 0},
        "observers": dict.fromkeys(DEFAULT_OBSERVERS, False) | {name: dict(given) for name, given in observers.items()},
    }
    to_toml(tree)  # refuses here what could not be read again
    return RunSpec.from_dict(tree)
