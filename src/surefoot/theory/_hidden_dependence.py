"""Results that weights steer behind autograd's back: by an index, a mask, or a value cut off from its gradient."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

_OF_SHAPE_ALONE = ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like")


class HiddenDependence(TorchFunctionMode):
    """Inside, `nodes` collects the graph's nodes that were given something which weights move and no gradient shows.

    `h > 0`, `h.argsort()`, `h.detach()` have no gradient though `h` has one; what is computed with them jumps, or has
    derivatives that autograd does not know. Calls from Python are seen, branches of Python code on a value are not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nodes: set[Any] = set()
        self._hidden: dict[int, Tensor] = {}  # held, so that no other tensor gets the same id

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, and note what comes of values that are hidden."""
        given = list(_tensors([args, kwargs or {}]))
        moved = any(value.requires_grad for value in given)  # asked before the call, which may change it in place
        hidden = any(id(value) in self._hidden for value in given)
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if not (moved or hidden) or name in _OF_SHAPE_ALONE or name.startswith("new_"):
            return result
        changed = given[:1] if name == "__setitem__" else []
        for value in (*_tensors(result), *changed):
            if not value.requires_grad:
                self._hidden[id(value)] = value
            elif hidden:
                self.nodes.add(value.grad_fn)
        return result


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple | dict):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _tensors(value)
