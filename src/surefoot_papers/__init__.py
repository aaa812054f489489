"""Two papers' studies, rerun and judged by surefoot: one folder per study. Nothing in surefoot imports this package."""

from pathlib import Path


def study_files() -> list[Path]:
    """The files of all studies here, for surefoot's entry point of that name."""
    return sorted(Path(__file__).parent.glob("*/*/study.toml"))
