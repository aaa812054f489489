"""Sharpness-aware minimisation."""

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS, SGD, Optimizer, SparseAdam

from surefoot.losses import CrossEntropy, Loss
from surefoot.optim._closure import Copied, Params, check_gradients, check_real, run
from surefoot.optim.passes import gradients_kept_local, statistics_kept

Group = tuple[dict[str, Any], list[Tensor], list[Tensor]]  # options, parameters, their gradients

TINY = 1e-12  # added to norms


class SAM(Copied, Optimizer):
    r"""Steps `base` with the gradient taken `rho` uphill, at w + rho g / ||g||. Two gradients per step.

    Foret et al. 2021. The norm is over all parameters; groups may have a `rho` of their own. `step(closure)` calls the
    closure itself, twice, each time with gradients cleared, and returns the loss before the step. The weights are back
    to the same bits before `base` steps, whatever happens in the closure. Weight decay, momentum and learning rate are
    the base's, whose `param_groups` this shares, so that schedulers and scalers see one optimizer. Costs one copy of
    the weights.

    `clean_statistics` keeps the running statistics of batch norm from the first pass only. Under
    `DistributedDataParallel`, `sync_perturbation=False` climbs the gradient of each process's own batch (m-sharpness).

    A loop that cannot give a closure calls `perturb()` after the first backward, `restore()` after the second, then
    `step()`. `loss(logits, labels)` is the mean of the per-sample `loss` given (cross-entropy if none).

    >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))
    >>> sam = SAM([w], SGD, rho=0.05, lr=0.1)
    >>> def closure():
    ...     loss = (w.square() * torch.tensor([0.5, 5.0])).sum()
    ...     loss.backward()
    ...     return loss.item()
    >>> sam.step(closure), [round(x, 8) for x in w.tolist()]
    (5.5, [0.89950248, -0.04975186])
    """

    gradients_per_step = 2

    needs_closure = True
    _fresh = ("_home", "_away", "_second_pass", "_walked")

    def __init__(
        self,
        params: Params,
        base: type[Optimizer] = SGD,
        *,
        rho: float = 0.05,
        loss: Loss | None = None,
        clean_statistics: bool = True,
        sync_perturbation: bool = True,
        **options: Any,
    ) -> None:
        check_base(base, options)
        self.base = base(params, **options)
        super().__init__(self.base.param_groups, {**self.base.defaults, "rho": rho})
        for group in self.param_groups:
            _check_group(group)
        self._share()
        check_real(self)
        self.plain: Loss = CrossEntropy() if loss is None else loss
        self.clean_statistics = clean_statistics
        self.sync_perturbation = sync_perturbation
        self._begin()

    def _begin(self) -> None:
        self._home: dict[Tensor, Tensor] = {}  # copies of the weights, kept from step to step
        self._away: list[Tensor] = []  # parameters that are not at home
        self._second_pass = ExitStack()  # what holds while the weights are away
        self._walked = False  # uphill and home again: a step without closure may follow

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._begin()

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of every sample [N] in the present pass."""
        return self._checked(self.plain(logits, labels), labels)

    @staticmethod
    def _checked(losses: Tensor, labels: Tensor) -> Tensor:
        if losses.shape != labels.shape[:1]:
            raise ValueError(
                f"`loss` must give one value per sample, [{len(labels)}], got shape {list(losses.shape)}: "
                "with a loss of PyTorch's, reduction='none'."
            )
        return losses

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Its mean: what the closure should call `backward` on."""
        return self.per_sample(logits, labels).mean()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the base; the closure's loss before it. Without closure only after `perturb` and `restore`."""
        if closure is None:
            if self._away or not self._walked:
                raise ValueError(
                    f"{type(self).__name__}.step needs a `closure` that computes the loss and calls backward, or "
                    "`perturb()` and `restore()` around the second backward before it."
                )
            return self._descend()
        with nullcontext() if self.sync_perturbation else gradients_kept_local():
            loss = run(closure, self)
        try:
            self.perturb()
            run(closure, self)
        except BaseException:
            self.restore()
            self._walked = False
            raise
        self.restore()
        self._descend()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; those of a finished second pass are gone then too."""
        super().zero_grad(set_to_none)
        if not self._away:
            self._walked = False

    @torch.no_grad()
    def perturb(self, *, grad_scale: float = 1.0) -> None:
        """Go uphill by the gradients at hand; `grad_scale` is what a `GradScaler` has multiplied them by.

        Call `zero_grad()` and `backward()` next, then `restore()`.
        """
        if self._away:
            raise ValueError("The weights are displaced already: call `restore()` first.")
        groups = self._with_gradients()
        away = [p for _, params, _ in groups for p in params]
        self._home = {p: self._room(p) for p in away}
        torch._foreach_copy_(list(self._home.values()), away)
        self._away = away
        self._climb(groups, grad_scale)
        torch.clear_autocast_cache()  # it may hold casts of the weights at home
        if self.clean_statistics:
            self._second_pass.enter_context(statistics_kept(self._home))

    def _room(self, p: Tensor) -> Tensor:
        kept = self._home.get(p)
        if kept is None or (kept.shape, kept.dtype, kept.device) != (p.shape, p.dtype, p.device):
            return torch.empty_like(p)
        return kept

    @torch.no_grad()
    def restore(self) -> None:
        """Bring the weights home, to the same bits; does nothing where they are."""
        if not self._away:
            return
        try:
            torch._foreach_copy_(self._away, [self._home[p] for p in self._away])
            torch.clear_autocast_cache()
        finally:
            self._second_pass.close()
        self._away = []
        self._walked = True
        self._arrive()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the base; the list of groups is shared."""
        if "base" not in self.__dict__ or self.param_groups is not self.base.param_groups:
            super().add_param_group(param_group)  # while being built
            return
        param_group.setdefault("rho", self.defaults["rho"])
        _check_group(param_group)
        self.base.add_param_group(param_group)
        check_real(self)

    def state_dict(self) -> dict[str, Any]:
        """The base's, with what the perturbation remembers under "ascent"."""
        return {**self.base.state_dict(), "ascent": self._memory()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state; one of the base alone will do."""
        self.base.load_state_dict(state_dict)
        self._share()
        for group in self.param_groups:
            group.setdefault("rho", self.defaults["rho"])
        self._remember(state_dict.get("ascent", {}))

    def _climb(self, groups: list[Group], grad_scale: float) -> None:
        self._norm = total_norm(gradients for _, _, gradients in groups)
        for group, params, gradients in groups:
            torch._foreach_add_(params, gradients, alpha=float(group["rho"]) / (self._norm + TINY))

    def _arrive(self) -> None:
        """What is left to do to the gradients of the second pass."""

    def _descend(self) -> None:
        self._walked = False
        self.base.step()

    def _memory(self) -> dict[str, Any]:
        return {}

    def _remember(self, memory: dict[str, Any]) -> None:
        pass

    def _share(self) -> None:
        self.param_groups, self.state = self.base.param_groups, self.base.state

    def _with_gradients(self) -> list[Group]:
        check_gradients(self)
        groups = []
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                groups.append((group, params, [p.grad for p in params]))
        return groups


def check_base(base: Any, options: dict[str, Any]) -> None:
    """Raise ValueError unless `base` is an optimizer class that steps by gradients alone."""
    if not (isinstance(base, type) and issubclass(base, Optimizer)):
        raise ValueError(f"`base` must be an optimizer class such as torch.optim.SGD, got {base!r}.")
    if issubclass(base, LBFGS) or getattr(base, "needs_closure", False):
        raise ValueError(f"`base` must step by one gradient, and {base.__name__} asks for several.")
    if issubclass(base, SparseAdam):
        raise ValueError("`base` must take dense gradients, and SparseAdam does not.")
    if options.get("maximize"):
        raise ValueError("`maximize` must be off: uphill is the way of the perturbation.")


def total_norm(gradients: Iterable[list[Tensor]]) -> float:
    """Euclidean norm over all tensors, at least in single precision."""
    alike: dict[Any, list[Tensor]] = {}
    for group in gradients:
        for tensor in group:
            alike.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    parts = []
    for (_, dtype), tensors in alike.items():
        norms = torch._foreach_norm(tensors, 2, dtype=torch.float32 if dtype.itemsize < 4 else None)
        parts.append(float(torch.stack(list(norms)).norm()))
    return math.hypot(*parts)


def _check_group(group: dict[str, Any]) -> None:
    rho = group["rho"]
    if not isinstance(rho, int | float | Tensor) or not 0 <= float(rho) < math.inf:
        raise ValueError(f"`rho` must be at least 0 and finite, got {rho!r}.")
    if group.get("maximize"):
        raise ValueError("`maximize` must be off: uphill is the way of the perturbation.")
