"""What a model returns, as logits."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from surefoot.watch.batch import Rows

LogitsOf = Callable[[Any], Tensor]  # what the model returned -> logits [N, K]

_FIX = "pass `logits_of=lambda output: ...`"


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returned where there is no doubt which they are; ValueError elsewhere.

    A tensor is the logits itself; else what is called `logits`, as in the outputs of Hugging Face models; else the only
    tensor of shape [N, K] in a tuple.

    >>> import torch
    >>> logits_of((torch.tensor(0.3), torch.zeros(2, 5))).shape
    torch.Size([2, 5])
    """
    if isinstance(output, Tensor):
        return _checked(output)
    named = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return _checked(named)
    if isinstance(output, Mapping):
        raise ValueError(f"`model` returned a mapping without `logits`, with keys {sorted(map(str, output))}: {_FIX}.")
    if isinstance(output, tuple | list):
        likely = [part for part in output if isinstance(part, Tensor) and _is_logits(part)]
        if len(likely) == 1:
            return likely[0]
        raise ValueError(
            f"`model` returned a {type(output).__name__} with {len(likely)} tensors of shape [N, K], and one of them "
            f"must be the logits: {_FIX}."
        )
    raise ValueError(f"`model` must return logits [N, K], got {type(output).__name__}: {_FIX}.")


def _is_logits(output: Tensor) -> bool:
    return output.ndim == 2 and output.is_floating_point() and output.shape[1] > 1


def _checked(output: Tensor) -> Tensor:
    if _is_logits(output):
        return output
    one = output.ndim == 1 or (output.ndim == 2 and output.shape[1] == 1)
    hint = " (one logit z of two classes is the pair 0, z)" if one else ""
    raise ValueError(
        f"`model` must return logits of shape [N, K] with at least 2 classes, got {output.dtype} of shape "
        f"{list(output.shape)}: {_FIX}{hint}."
    )


class Logits(nn.Module):
    """A model as a map from inputs, one tensor or several, to logits; holds the model, changes nothing in it."""

    def __init__(self, model: nn.Module, logits_of: LogitsOf) -> None:
        super().__init__()
        self.model = model
        self._logits_of = logits_of

    def forward(self, inputs: Tensor | Rows) -> Tensor:
        """Logits [N, K]."""
        parts = [inputs] if isinstance(inputs, Tensor) else inputs.parts
        try:
            output = self.model(**parts) if isinstance(parts, dict) else self.model(*parts)
        except NotImplementedError as error:
            raise ValueError(
                f"`model` has no `forward`, got {type(self.model).__name__}: give the module inside that has one (to a "
                "Lightning callback, by `model_of=lambda module: ...`)."
            ) from error
        return _checked(self._logits_of(output))
