"""Trials as Ray tasks."""

import os
import socket
from collections.abc import Sequence
from typing import Any

from surefoot.studies.engines.cluster import Lost, perform_until_stopped
from surefoot.studies.engines.engine import Event, Trial


class RayBackend:
    """Does trials on a Ray cluster, or on one started on this machine if no address is given."""

    def __init__(self, address: str | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves runs on a machine that does more
        try:
            import ray
        except ImportError:
            raise ImportError("The engine ray needs ray: pip install 'surefoot[ray]'.") from None
        self._ray: Any = ray  # half of its functions have no types
        self._started = not ray.is_initialized()
        if self._started:
            if address is not None:
                _check_there(address)
            own: dict[str, Any] = {} if address else {"include_dashboard": False}
            try:
                ray.init(address=address or "local", log_to_driver=False, configure_logging=False, **own)
            except ConnectionError as error:
                raise ValueError(f"There is no Ray cluster at {address}: {error}") from None
        self._perform = ray.remote(perform_until_stopped)

    def has_room(self, trial: Trial, active: Sequence[Trial]) -> bool:
        """Whether the cluster, as it is now, has that many cores and cards beside what is being done."""
        there = self._ray.cluster_resources()
        cpus = sum(item.cpus for item in (*active, trial))
        gpus = sum(item.gpus for item in (*active, trial))
        return not active or (cpus <= there.get("CPU", 0) and gpus <= there.get("GPU", 0))

    def submit(self, trial: Trial) -> Any:
        """A task that Ray does not retry: the engine does, and tells."""
        needs = {"num_cpus": trial.cpus, "num_gpus": trial.gpus, "max_retries": 0}
        return self._perform.options(**needs).remote(trial)

    def ended(self, handle: Any) -> Event | None:
        """How the task ended; Lost where its worker or node died."""
        done, _ = self._ray.wait([handle], timeout=0)
        if not done:
            return None
        try:
            event: Event = self._ray.get(handle)
        except self._ray.exceptions.RayError as error:
            raise Lost(f"its Ray worker died ({type(error).__name__})") from None
        return event

    def cancel(self, handle: Any) -> None:
        """Kill the task's worker."""
        self._ray.cancel(handle, force=True)

    def close(self) -> None:
        """Stop the Ray that this started, or leave the cluster."""
        if self._started:
            self._ray.shutdown()


def _check_there(address: str) -> None:
    """Raise ValueError where nobody listens: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", which Ray resolves
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ValueError(f"There is no Ray cluster at {address}: {error}.") from None
