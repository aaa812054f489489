"""A training's state as one safetensors file, written so that a reader sees the old one or the new one."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from surefoot.files import write_atomically
from surefoot.losses import memory_of
from surefoot.training.loop import Training


def save(path: Path, training: Training, **extra: Any) -> None:
    """Write weights, optimizer, objective, observers, generators, counters, and what `extra` (plain values) adds."""
    memory = memory_of(training.objective)
    state = {
        "model": training.model.state_dict(),
        "optimizer": training.optimizer.state_dict(),
        "objective": {} if memory is None else memory.state_dict(),
        "observers": {name: observer.state_dict() for name, observer in training.observers.items()},
        "generators": _generators(),
        "step": training.step,
        "num_gradients": training.num_gradients,
        "first_loss": training.first_loss,
        "extra": extra,
    }
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(_packed(state, tensors))
    # the digest is a tensor too: the order of several keys of metadata is not the same in every process
    write_atomically(path, to_bytes({**tensors, "digest": _digest(tree, tensors)}, metadata={"state": tree}))


def read(path: Path) -> dict[str, Any]:
    """The state saved at `path`, `extra` among it; ValueError where the file is no checkpoint, or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state: dict[str, Any] = _unpacked(json.loads(about["state"]), tensors)
        digest = tensors.pop("digest", None)  # older ones have none
        if digest is not None and not torch.equal(digest, _digest(about["state"], tensors)):
            raise ValueError("its content is not what was written")
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a checkpoint: {error}.") from None
    return state


def restore(training: Training, state: dict[str, Any]) -> None:
    """Bring `training` to a state that `read` returned. Weights keep their device."""
    training.model.load_state_dict(state["model"])
    training.optimizer.load_state_dict(state["optimizer"])
    memory = memory_of(training.objective)
    if memory is not None and state.get("objective"):  # older checkpoints have none
        memory.load_state_dict(state["objective"])
    for name, observer in training.observers.items():
        observer.load_state_dict(state["observers"][name])
    torch.set_rng_state(state["generators"]["cpu"])
    if torch.cuda.is_available() and state["generators"]["cuda"]:
        torch.cuda.set_rng_state_all(state["generators"]["cuda"])
    if torch.backends.mps.is_available() and state["generators"]["mps"] is not None:
        torch.mps.set_rng_state(state["generators"]["mps"])
    training.step = state["step"]
    training.num_gradients = state["num_gradients"]
    training.first_loss = state["first_loss"]


def _digest(tree: str, tensors: Mapping[str, Tensor]) -> Tensor:
    digest = hashlib.sha256(tree.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return torch.tensor(list(digest.digest()), dtype=torch.uint8, device="cpu")


def _generators() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda, "mps": mps}


def _packed(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value as JSON, tensors moved into `tensors` and mentioned by number; dicts may have any plain key."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous().clone()  # tied weights may share memory: safetensors refuses
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _packed(item, tensors)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_packed(item, tensors) for item in value]}
    if isinstance(value, list):
        return [_packed(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"A checkpoint holds tensors and plain values, got {type(value).__name__}.")


def _unpacked(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "tuple":
        return tuple(_unpacked(item, tensors) for item in content)
    return {key: _unpacked(item, tensors) for key, item in content}
