"""Sharpness-aware minimisation."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS, SGD, Optimizer

from surefoot.losses import CrossEntropy, Loss
from surefoot.optim.closure import Params, check_gradients, check_real, run
from surefoot.optim.passes import gradients_kept_local, statistics_kept

Group = tuple[dict[str, Any], list[Tensor], list[Tensor]]  # options, parameters, their gradients

TINY = 1e-12  # added to norms


class SAM(Optimizer):
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
            _check_rho(group)
        self._share()
        check_real(self)
        self.plain: Loss = CrossEntropy() if loss is None else loss
        self.clean_statistics = clean_statistics
        self.sync_perturbation = sync_perturbation
        self._home: dict[Tensor, Tensor] = {}  # copies of the weights, kept from step to step
        self._away: list[Tensor] = []  # parameters that are not at home
        self._second_pass = ExitStack()  # what holds while the weights are away
        self._walked = False  # uphill and home again: a step without closure may follow

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of every sample [N] in the present pass."""
        return self.plain(logits, labels)

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
        finally:
            self.restore()
        self._descend()
        return loss

    @torch.no_grad()
    def perturb(self, *, grad_scale: float = 1.0) -> None:
        """Go uphill by the gradients at hand; `grad_scale` is what a `GradScaler` has multiplied them by.

        Call `zero_grad()` and `backward()` next, then `restore()`.
        """
        if self._away:
            raise ValueError("The weights are displaced already: call `restore()` first.")
        groups = self._with_gradients()
        away = [p for _, params, _ in groups for p in params]
        copies = [self._home.setdefault(p, torch.empty_like(p, memory_format=torch.preserve_format)) for p in away]
        torch._foreach_copy_(copies, away)
        self._away = away
        self._climb(groups, grad_scale)
        if self.clean_statistics:
            self._second_pass.enter_context(statistics_kept())

    @torch.no_grad()
    def restore(self) -> None:
        """Bring the weights home, to the same bits; does nothing where they are."""
        self._second_pass.close()
        if self._away:
            torch._foreach_copy_(self._away, [self._home[p] for p in self._away])
            self._away = []
            self._walked = True

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the base; the list of groups is shared."""
        if "base" not in self.__dict__ or self.param_groups is not self.base.param_groups:
            super().add_param_group(param_group)  # while being built
            return
        self.base.add_param_group(param_group)
        self.param_groups[-1].setdefault("rho", self.defaults["rho"])
        _check_rho(self.param_groups[-1])

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
            torch._foreach_add_(params, gradients, alpha=group["rho"] / (self._norm + TINY))

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
        found = []
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                found.append((group, params, [p.grad for p in params]))
        return found


def check_base(base: Any, options: dict[str, Any]) -> None:
    """Raise ValueError unless `base` is an optimizer class that steps by gradients alone."""
    if not (isinstance(base, type) and issubclass(base, Optimizer)):
        raise ValueError(f"`base` must be an optimizer class such as torch.optim.SGD, got {base!r}.")
    if issubclass(base, LBFGS | SAM):
        raise ValueError(f"`base` must step by one gradient, and {base.__name__} asks for several.")
    if options.get("maximize"):
        raise ValueError("`maximize` must be off: uphill is the way of the perturbation.")


def total_norm(gradients: Iterable[list[Tensor]]) -> float:
    """Euclidean norm over all tensors, at least in single precision."""
    norms = [
        norm.to("cpu", torch.float64)
        for group in gradients
        for norm in torch._foreach_norm(
            group, 2, dtype=torch.float32 if group[0].dtype in (torch.float16, torch.bfloat16) else None
        )
    ]
    return float(torch.stack(norms).norm())


def _check_rho(group: dict[str, Any]) -> None:
    if not group["rho"] >= 0:
        raise ValueError(f"`rho` must be at least 0, got {group['rho']}.")
