"""Trials as Slurm jobs, through submitit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.studies.engines.cluster import Lost, perform_until_stopped
from surefoot.studies.engines.engine import Event, Trial

_TIMEOUT_MINUTES = 720  # of a job, unless options say otherwise; one that runs out of time is resumed by the next


@dataclass
class SlurmBackend:
    """Does trials as jobs, `num_jobs` at a time; `options` are submitit's, as in slurm_partition or timeout_min.

    `cluster` is submitit's too: "local" does the jobs on this machine.
    """

    logs: Path  # where submitit keeps its files
    num_jobs: int
    options: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = "slurm"

    def __post_init__(self) -> None:
        try:
            import submitit
        except ImportError:
            raise ImportError("The engine slurm needs submitit: pip install 'surefoot[slurm]'.") from None
        if self.num_jobs < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.num_jobs}.")
        try:
            self._executor = submitit.AutoExecutor(folder=self.logs, cluster=self.cluster)
            self._executor.update_parameters(**{"name": "surefoot", "timeout_min": _TIMEOUT_MINUTES, **self.options})
        except (RuntimeError, NameError) as error:
            raise ValueError(f"Slurm cannot be used here: {error}") from None
        self._lost = submitit.core.utils.UncompletedJobError

    def has_room(self, trial: Trial, active: Sequence[Trial]) -> bool:
        """Whether fewer jobs than `num_jobs` are handed out; how many of them run is Slurm's affair."""
        return len(active) < self.num_jobs

    def submit(self, trial: Trial) -> Any:
        """A job with the trial's cores and cards."""
        self._executor.update_parameters(cpus_per_task=trial.cpus, gpus_per_node=trial.gpus)
        return self._executor.submit(perform_until_stopped, trial)

    def ended(self, handle: Any) -> Event | None:
        """How the job ended; Lost where it left no result."""
        if not handle.done():
            return None
        try:
            event: Event = handle.result()
        except self._lost as error:
            why = str(error).partition("\n")[0]
            raise Lost(f"its job {handle.job_id} died ({handle.state}): {why}") from None
        return event

    def cancel(self, handle: Any) -> None:
        """Take the job out of the queue."""
        handle.cancel(check=False)

    def close(self) -> None:
        """Jobs that ended leave nothing but their logs."""
