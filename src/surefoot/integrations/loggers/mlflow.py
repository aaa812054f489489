"""MLflow."""

import time
from collections.abc import Mapping
from typing import Any

from surefoot.integrations._package import imported
from surefoot.watch.logger import flattened

_AT_ONCE = 100  # parameters or metrics in one call; the server allows a few more


class MLflow:
    """A run of MLflow in a database, `mlflow.db` in the working folder unless `uri` says otherwise.

    Needs the extra `mlflow`. Goes by a client of its own: the active run of your own code is left alone.
    """

    def __init__(
        self, experiment: str = "surefoot", *, uri: str = "sqlite:///mlflow.db", run_name: str | None = None
    ) -> None:
        for module in ("mlflow", "sqlalchemy", "alembic"):
            imported(module, extra="mlflow", needed_by="The logger MLflow")
        self._entities = imported("mlflow.entities", extra="mlflow", needed_by="The logger MLflow")
        client = imported("mlflow.tracking", extra="mlflow", needed_by="The logger MLflow").MlflowClient
        self._client = client(tracking_uri=uri)
        existing = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if existing is None else existing.experiment_id
        self.run_id: str = self._client.create_run(place, run_name=run_name).info.run_id

    def log(self, values: Mapping[str, float], step: int) -> None:
        """One point per quantity."""
        now = int(1000 * time.time())
        metrics = [self._entities.Metric(key, float(value), now, step) for key, value in values.items()]
        for start in range(0, len(metrics), _AT_ONCE):
            self._client.log_batch(self.run_id, metrics=metrics[start : start + _AT_ONCE])

    def log_config(self, config: Mapping[str, Any]) -> None:
        """As parameters with dotted names."""
        params = [self._entities.Param(key, str(value)) for key, value in flattened(config).items()]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self.run_id, params=params[start : start + _AT_ONCE])

    def finish(self) -> None:
        """End the run."""
        self._client.set_terminated(self.run_id)
