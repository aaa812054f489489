"""How much memory tensors take while something runs, counted by their storages."""

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Storage(TorchDispatchMode):
    """Bytes of storages of at least `smallest` bytes that appear inside the block; `peak` is the most at once."""

    def __init__(self, smallest: int = 0) -> None:
        super().__init__()
        self.smallest = smallest
        self.live: dict[int, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                key = storage.data_ptr()
                if key not in self.live and key not in given and storage.nbytes() >= self.smallest:
                    self.live[key] = storage.nbytes()
                    weakref.finalize(storage, self.live.pop, key, None)
                self.peak = max(self.peak, sum(self.live.values()))
        return out
