"""Bayesian SAM."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from surefoot.optim._closure import Copied, Params, check_real, run
from surefoot.params import displaced


class BSAM(Copied, Optimizer):
    r"""SAM as a variational method: a Gaussian over weights, mean w and precision N s. Moellenhoff and Khan 2023.

    Per sub-batch: g at w + e / sqrt(N s), e standard normal; g~ at w + rho g / s. Averaged over sub-batches,
    m <- beta1 m + (1 - beta1)(g~ + prior w / N); w <- w - lr m / s; s <- beta2 s + (1 - beta2)(sqrt(s) |g| + damping +
    prior / N), each with the old s. `num_samples` N is that of the training set (times about 4 under augmentation, as
    the authors do). `step` takes a closure, or a list of them, one for each sub-batch; returns their mean loss at the
    noisy weights, as neither pass is at w. Two gradients per sub-batch, three copies of the weights while it steps.

    `sampled()` puts the weights at a draw from the Gaussian: average the probabilities of some 32 to predict.
    """

    gradients_per_step = 2

    needs_closure = True

    def __init__(
        self,
        params: Params,
        lr: float = 0.5,
        *,
        num_samples: int,
        rho: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        prior_precision: float = 40.0,
        damping: float = 0.1,
        first_precision: float = 1.0,
        seed: int = 0,
    ) -> None:
        for name, value in (("rho", rho), ("prior_precision", prior_precision), ("lr", lr)):
            if not value >= 0:
                raise ValueError(f"`{name}` must be at least 0, got {value}.")
        for name, value in (("damping", damping), ("first_precision", first_precision), ("num_samples", num_samples)):
            if not value > 0:
                raise ValueError(f"`{name}` must be positive, got {value}.")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"`betas` must lie in [0, 1), got {betas}.")
        super().__init__(params, {"lr": lr, "rho": rho})
        check_real(self)
        for group in self.param_groups:
            for name in ("lr", "rho"):
                if not group[name] >= 0:
                    raise ValueError(f"`{name}` must be at least 0, got {group[name]}.")
        self.num_samples = num_samples
        self.betas = tuple(betas)
        self.prior = prior_precision / num_samples
        self.damping = damping
        self.first_precision = first_precision
        self._generator = torch.Generator().manual_seed(seed)

    def step(self, closure: Callable[[], Any] | Sequence[Callable[[], Any]] | None = None) -> Any:
        """One step; the mean loss at the noisy weights."""
        if closure is None:
            raise ValueError(
                "BSAM.step needs a `closure` that computes the loss and calls backward, or a list of them."
            )
        closures = [closure] if callable(closure) else list(closure)
        if not closures:
            raise ValueError("BSAM.step needs at least one closure, got an empty list.")
        params = self._params()
        uphill: dict[Tensor, Tensor] = {}
        sizes: dict[Tensor, Tensor] = {}
        losses = []
        for one in closures:
            with self.sampled():
                loss = run(one, self)
                loss = torch.as_tensor(math.nan if loss is None else loss, dtype=torch.float64, device="cpu")
                losses.append(loss.detach())
            gradients = {p: p.grad.detach().clone() for p in params if p.grad is not None}
            climb = [self._rho[p] * gradients[p] / self._s(p) for p in gradients]
            with displaced(list(gradients), by=climb):
                run(one, self)
            for p, gradient in gradients.items():
                for sums, part in ((uphill, p.grad), (sizes, gradient.abs())):
                    if part is not None:
                        sums[p] = sums[p].add_(part) if p in sums else part.detach().clone()
        self._update(uphill, sizes, len(closures))
        return torch.stack(losses).mean()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Weights drawn from the Gaussian inside the block, and back to the same bits after it."""
        params = self._params()
        noise = [
            torch.randn(p.shape, generator=self._generator).to(p) / (self.num_samples * self._s(p)).sqrt()
            for p in params
        ]
        with displaced(params, by=noise):
            yield

    @torch.no_grad()
    def _update(self, uphill: dict[Tensor, Tensor], sizes: dict[Tensor, Tensor], number: int) -> None:
        first, second = self.betas
        for group in self.param_groups:
            for p in group["params"]:
                if p not in uphill:
                    continue
                s = self._s(p)
                state = self.state[p]
                momentum = state.setdefault("momentum", torch.zeros_like(p))
                momentum.mul_(first).add_(uphill[p] / number + self.prior * p, alpha=1 - first)
                p.addcdiv_(momentum, s, value=-group["lr"])
                grown = s.sqrt() * sizes[p] / number + self.damping + self.prior
                state["precision"] = second * s + (1 - second) * grown

    @property
    def _rho(self) -> dict[Tensor, float]:
        return {p: group["rho"] for group in self.param_groups for p in group["params"]}

    def _s(self, p: Tensor) -> Tensor:
        precision: Tensor = self.state[p].setdefault("precision", torch.full_like(p, self.first_precision))
        return precision.detach()

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def state_dict(self) -> dict[str, Any]:
        """Momentum, precision, and the generator of the noise."""
        return {**super().state_dict(), "generator": self._generator.get_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state."""
        super().load_state_dict(state_dict)
        if "generator" in state_dict:
            self._generator.set_state(state_dict["generator"].cpu())
