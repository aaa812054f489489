"""Where numbers can go beside the run folder, each behind the same three methods."""

from collections.abc import Callable

from surefoot.integrations.loggers.mlflow import MLflow
from surefoot.integrations.loggers.tensorboard import TensorBoard
from surefoot.integrations.loggers.wandb import WandB
from surefoot.watch.logger import Guarded, Logger

LOGGERS: dict[str, Callable[..., Logger]] = {"mlflow": MLflow, "tensorboard": TensorBoard, "wandb": WandB}

__all__ = ["LOGGERS", "Guarded", "Logger", "MLflow", "TensorBoard", "WandB"]
