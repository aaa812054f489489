"""A run's network at its last checkpoint."""

from pathlib import Path

from surefoot.runs.build import build
from surefoot.runs.folder import RunFolder
from surefoot.runs.spec import RunSpec
from surefoot.training import checkpoint
from surefoot.training.loop import Training


def restored_training(path: Path) -> tuple[Training, RunSpec]:
    """The training of a run (its folder, or a checkpoint in it) with the weights of the checkpoint, and its spec."""
    folder = RunFolder(path if path.is_dir() else path.parent)
    file = folder.checkpoint if path.is_dir() else path
    spec = folder.spec
    if not file.exists():
        raise ValueError(f"{file} does not exist: an archived run has no weights; train it again.")
    training = build(spec)
    state = checkpoint.read(file)
    training.model.load_state_dict(state["model"])
    training.step = state["step"]
    return training, spec
