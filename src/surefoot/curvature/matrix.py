"""What all matrices of second derivatives share: weights, samples, and the mode in which the model is evaluated."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from surefoot.eval_mode import evaluating
from surefoot.params import flat, unflat

Loss = Callable[[Tensor, Tensor], Tensor]  # logits [N, K], labels -> one value per sample [N], or their mean
PROBED = 8  # samples evaluated twice, to detect models that are random in eval mode


@dataclass(frozen=True, eq=False)
class Linearised:
    """The model and its loss around the present weights, on some samples."""

    product: Callable[[Sequence[Tensor], bool], Sequence[Tensor]]  # directions, each with a leading R if batched
    gradient: Callable[[], Sequence[Tensor]]


class CurvatureMatrix(ABC):
    """A symmetric matrix in the weights, the mean over samples of one matrix each, known by its products `A @ v`.

    A vector [P] or a block of them [R, P] is multiplied, in the order of `model.parameters()`; `only` keeps the
    parameters whose name it accepts. Frozen parameters are left out, unused ones have zero rows. The forward pass is
    done once and its graph kept, in chunks of `chunk_size` samples if given, weighted by their sizes. The model is
    evaluated in eval mode (batch norm with its running statistics, no dropout), attention by its plain kernel, which
    alone can be differentiated twice; mode, gradients, buffers and generators are restored. Weights must not
    change while the matrix lives. In a process group of several processes, each holds its own samples and gets the
    product over those of all; every process must then make the same calls.
    """

    build_cost = 1.0  # of linearising the model once, in gradients, for planning
    product_cost = 1.0  # of one product, likewise

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        inputs: Tensor,
        labels: Tensor,
        *,
        only: Callable[[str], bool] = lambda name: True,
        chunk_size: int | None = None,
    ) -> None:
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(f"`chunk_size` must be at least 1, got {chunk_size}.")
        size = chunk_size or len(labels)
        chunks = [(inputs[at : at + size], labels[at : at + size]) for at in range(0, len(labels), size)]
        self._linearise(model, loss, chunks, only)

    @classmethod
    def over(
        cls,
        model: nn.Module,
        loss: Loss,
        batches: Iterable[tuple[Any, Tensor]],
        *,
        only: Callable[[str], bool] = lambda name: True,
    ) -> Self:
        """The matrix of all samples of some batches, a `DataLoader` for example, each batch a chunk."""
        matrix = object.__new__(cls)
        matrix._linearise(model, loss, list(batches), only)
        return matrix

    @abstractmethod
    def _linearised(self, model: nn.Module, loss: Loss, inputs: Any, labels: Tensor) -> Linearised:
        """Linearise the model once: products with the matrix of the mean loss on these samples, and its gradient."""

    def _linearise(
        self, model: nn.Module, loss: Loss, chunks: Sequence[tuple[Any, Tensor]], only: Callable[[str], bool]
    ) -> None:
        if not chunks or not sum(len(labels) for _, labels in chunks):
            raise ValueError("The data must hold at least one sample, got none; is it an iterator that has ended?")
        if getattr(loss, "reduction", "none") == "sum":
            raise ValueError("`loss` must give a value per sample or their mean, got one with reduction='sum'.")
        if getattr(loss, "couples_samples", False):
            raise ValueError(
                f"`loss` couples the samples of a batch, so its curvature is no mean over samples, got "
                f"{type(loss).__name__}: measure that of its base, cross-entropy for example."
            )
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and only(name)]
        if not named:
            raise ValueError("`model` must have at least one parameter that requires a gradient, got none.")
        self.names = tuple(name for name, _ in named)
        self.params = [p for _, p in named]
        with differentiable_eval(model):
            _check_repeatable(model, chunks[0][0])
            self._parts = [(len(labels), self._linearised(model, loss, x, labels)) for x, labels in chunks]
        number = torch.tensor(float(sum(count for count, _ in self._parts)), dtype=torch.float64)
        if _several_processes():
            number = number.to(self.params[0].device)
            dist.all_reduce(number)
        self.num_samples = int(number) if not number.is_meta else len(chunks[0][1])

    @property
    def size(self) -> int:
        """P."""
        return sum(p.numel() for p in self.params)

    @property
    def like(self) -> Tensor:
        """The weights as a vector [P] of the kind to multiply: float32 at least, however the weights are stored."""
        weights = flat([p.detach() for p in self.params])
        return weights.float() if weights.dtype.itemsize < 4 else weights

    def __matmul__(self, vectors: Tensor) -> Tensor:
        """A v for a vector [P], or for each row of a block [R, P], in the vectors' own precision."""
        given, vectors = vectors.dtype, vectors.to(self.params[0].dtype)
        batched = vectors.ndim == 2
        if batched:
            rows = [unflat(row, self.params) for row in vectors]
            directions = [torch.stack(parts) for parts in zip(*rows, strict=True)]
        else:
            directions = unflat(vectors, self.params)
        images = []
        for count, part in self._parts:
            with _named_errors():
                parts = part.product(directions, batched)
            if batched:  # the zeros of unused parameters come without the leading dimension
                whole = [p.expand(len(vectors), *w.shape) for p, w in zip(parts, self.params, strict=True)]
                image = torch.cat([part.reshape(len(vectors), -1) for part in whole], dim=1)
            else:
                image = flat(parts)
            images.append(image if count == self.num_samples else image * (count / self.num_samples))
        return _summed(images).to(given)  # like `vectors`

    def gradient(self) -> Tensor:
        """The gradient of the mean loss, [P], in the same order."""
        return _summed([flat(part.gradient()) * (count / self.num_samples) for count, part in self._parts])

    def dense(self) -> Tensor:
        """The whole matrix [P, P], for small models."""
        eye = torch.eye(self.size, dtype=self.params[0].dtype, device=self.params[0].device)
        return torch.stack([self @ row for row in eye])


def mean_loss(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    """The mean of a loss, computed in float64 where it can be.

    In float32 the p (1 - p) of its second derivative has few digits left at a margin of 12 and none at 17.
    """
    if logits.dtype.itemsize < 8 and not logits.is_meta and logits.device.type != "mps":
        targets = labels.double() if labels.is_floating_point() else labels
        try:
            return loss(logits.double(), targets).mean()
        except RuntimeError:  # it holds numbers of its own in another precision
            pass
    return loss(logits, labels).mean()


def _summed(parts: Sequence[Tensor]) -> Tensor:
    total = torch.stack(list(parts)).sum(dim=0) if len(parts) > 1 else parts[0].contiguous()
    if _several_processes():
        dist.all_reduce(total)
    return total


def subset(inputs: Tensor, labels: Tensor, *, num_samples: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Some of the samples, the same for the same seed, in their order."""
    if not 1 <= num_samples <= len(labels):
        raise ValueError(f"`num_samples` must lie in 1..{len(labels)}, got {num_samples}.")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed), device="cpu")
    chosen = order[:num_samples].sort().values.to(labels.device)
    return inputs[chosen], labels[chosen]


def first_not_finite(model: nn.Module, inputs: Any) -> str:
    """Where in the model a value that is not finite shows first: a module's name, or the input."""
    if isinstance(inputs, Tensor) and inputs.is_floating_point() and not bool(inputs.isfinite().all()):
        return "the input"
    layers: list[str] = []

    def hook_of(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not bool(output.isfinite().all()):
                layers.append(name)

        return hook

    leaves = [(name, module) for name, module in model.named_modules() if not any(module.children())]
    hooks = [module.register_forward_hook(hook_of(name or "the model")) for name, module in leaves]
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return f"layer {layers[0]!r}" if layers else "the loss"


@contextmanager
def differentiable_eval(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, differentiable twice, and afterwards as it was: mode, buffers, generators."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = [p.device for p in model.parameters() if p.device.type == "cuda"][:1]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)  # it has no derivatives at all
        with (
            evaluating(model),
            torch.enable_grad(),
            torch.random.fork_rng(devices=devices),
            sdpa_kernel(SDPBackend.MATH),
            _named_errors(),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        with torch.no_grad():
            for buffer, original in buffers:
                if not buffer.is_meta and not torch.equal(buffer, original):
                    buffer.copy_(original)


def _check_repeatable(model: nn.Module, inputs: Any) -> None:
    if not isinstance(inputs, Tensor) or inputs.is_meta:
        return
    with torch.no_grad():
        first, second = (model(inputs[:PROBED]) for _ in range(2))
    if isinstance(first, Tensor) and not torch.equal(first.nan_to_num(), second.nan_to_num()):
        raise ValueError(
            "`model` must give the same output twice in eval mode, got two that differ: is it random by design? "
            "Products with its curvature would differ too."
        )


def check_twice_differentiable(output: Tensor, derivatives: Sequence[Tensor]) -> None:
    """Raise ValueError if a derivative hides an operation that has no second one.

    Autograd itself would say nothing: where the way to the weights ends at such an operation, it takes the derivative
    for zero.
    """
    if any(node.name() == "torch::autograd::Error" for node in _graph(derivatives)):
        own = {type(n).__name__ for n in _graph([output]) if isinstance(n, torch.autograd.function.BackwardCFunction)}
        raise _no_second_derivative(", ".join(sorted(own)) or "marked @once_differentiable")


def _graph(outputs: Sequence[Tensor]) -> Iterator[Any]:
    waiting = [t.grad_fn for t in outputs if t.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        text = str(error).splitlines()[0].rstrip(".")
        if "derivative for" in text and "not implemented" in text:
            raise _no_second_derivative(text) from error
        raise


def _no_second_derivative(what: str) -> ValueError:
    return ValueError(
        f"The model uses an operation without a second derivative ({what}): replace it, for example a fused kernel by "
        "its plain form."
    )


def _several_processes() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
