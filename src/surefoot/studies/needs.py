"""What an analysis needs its runs to have measured."""

from surefoot.runs.spec import RunSpec


def need_observers(spec: RunSpec, *names: str) -> None:
    """Raise ValueError unless a run of this spec has these observers."""
    for name in names:
        if name not in spec.observers:
            raise ValueError(f"The study needs the observer {name}, and {spec.label} does without it.")
