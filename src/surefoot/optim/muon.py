"""Muon for hidden matrices, AdamW for the rest."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from surefoot.optim._closure import Copied, Params, check_gradients, check_real, run

_EMBEDDING = re.compile(r"embed|wte|wpe|token|(^|[._])pos")
_HEAD = re.compile(r"head|classifier")
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(Copied, Optimizer):
    r"""Steps hidden matrices by their momentum with all singular values brought near 1, the rest by AdamW.

    Jordan et al. 2024: b <- beta b + (1 - beta) g, u = beta b + (1 - beta) g (Nesterov), w <- w - lr sqrt(max(1,
    rows / columns)) `orthogonalized`(u), weight decay decoupled. Convolutions count as matrices [out, the rest].

    Which parameter goes where is the entry "rule" of its group, "muon" or "adamw"; groups given with a rule keep it.
    Of the others, Muon gets the matrices (flattened: at least two rows and two columns) except the first convolution
    (pixels) and the head, which is what a name calls head or classifier, else the last matrix; and except embeddings,
    tokens and positions, which only names tell: so give `model.named_parameters()` where there are any. `split` shows
    it. Our choice: a first fully connected layer goes to Muon, and a convolution's scale is that of the flattened
    matrix, where the reference takes the kernel's height over its width. One gradient per step.

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 3))
    >>> Muon(model.named_parameters()).split["muon"]
    ['0.weight', '1.weight']
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.02,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        num_iterations: int = 5,
        adamw_lr: float = 3e-4,
        adamw_betas: tuple[float, float] = (0.9, 0.95),
        adamw_eps: float = 1e-10,
        adamw_weight_decay: float = 0.0,
    ) -> None:
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"`{name}` must be at least 0, got {value}.")
        if not 0 <= momentum < 1:
            raise ValueError(f"`momentum` must lie in [0, 1), got {momentum}.")
        if num_iterations < 1:
            raise ValueError(f"`num_iterations` must be at least 1, got {num_iterations}.")
        others = {"lr": adamw_lr, "betas": tuple(adamw_betas), "eps": adamw_eps, "weight_decay": adamw_weight_decay}
        self._adamw = AdamW([torch.nn.Parameter(torch.zeros(1))], **others)  # type: ignore[arg-type]
        self._rules: dict[str, dict[str, Any]] = {
            "muon": {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay},
            "adamw": dict(self._adamw.defaults),
        }
        self.num_iterations = num_iterations
        super().__init__(
            _groups_by_rule(params), {"momentum": momentum}
        )  # a default that schedulers of momentum ask for
        self._share()

    @property
    def split(self) -> dict[str, list[str]]:
        """Names of the parameters by rule; numbers, in order of the groups, where no names were given."""
        names_by_rule: dict[str, list[str]] = {"muon": [], "adamw": []}
        number = 0
        for group in self.param_groups:
            for place, _ in enumerate(group["params"]):
                names = group.get("param_names")
                names_by_rule[group["rule"]].append(names[place] if names else str(number))
                number += 1
        return names_by_rule

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of both rules; the closure's loss before it."""
        loss = None if closure is None else run(closure, self)
        if any(p.grad is not None for group in self.param_groups for p in group["params"]):
            check_gradients(self)
        self._adamw.step()
        for group in self.param_groups:
            if group["rule"] != "muon":
                continue
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group)
        return loss

    def _move(self, p: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[p]
        mean = state.setdefault("momentum_buffer", torch.zeros_like(p))
        mean.lerp_(gradient, 1 - group["momentum"])
        ahead = torch.lerp(gradient, mean, group["momentum"]) if group["nesterov"] else mean
        matrix = ahead.reshape(len(ahead), -1)
        step = orthogonalized(matrix, num_iterations=self.num_iterations)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
        p.add_(step.view_as(p), alpha=-group["lr"] * scale)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state."""
        super().load_state_dict(state_dict)
        self._share()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; it needs a "rule"."""
        _check_rule(param_group)
        group = {**self._rules[param_group["rule"]], **param_group}
        items = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        group["params"] = items
        if group["rule"] == "muon" and any(_of(item).ndim < 2 for item in items):
            raise ValueError('A parameter with rule "muon" must have at least two dimensions.')
        for key in ("lr", "weight_decay"):
            if not group[key] >= 0:
                raise ValueError(f"`{key}` must be at least 0, got {group[key]}.")
        super().add_param_group(group)
        check_real(self)
        self._share()

    def _share(self) -> None:
        self._adamw.param_groups = [group for group in self.param_groups if group["rule"] == "adamw"]
        self._adamw.state = self.state


def orthogonalized(matrix: Tensor, *, num_iterations: int = 5) -> Tensor:
    r"""U V^T of the singular value decomposition U S V^T, roughly: Newton and Schulz's quintic iteration.

    Singular values land in about [0.68, 1.14] where they were at least a hundredth of the Frobenius norm, lower where
    they were smaller. In bfloat16, as its authors do, where the device multiplies it natively; else, where it would be
    several times slower, in float32. float64 stays.
    """
    a, b, c = COEFFICIENTS
    precision = matrix.dtype
    if precision != torch.float64:
        precision = torch.bfloat16 if has_bfloat16(matrix.device) else torch.float32
    x = matrix.to(precision)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(num_iterations):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)


def has_bfloat16(device: torch.device) -> bool:
    """Whether matrices of bfloat16 are multiplied by instructions of their own: accelerators, and some CPUs."""
    if device.type != "cpu":
        return True
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("amx_tile"))


def _groups_by_rule(params: Params) -> list[dict[str, Any]]:
    """Groups with one rule each, from parameters, named parameters or groups of them."""
    groups = _groups(params)
    hidden = _hidden_matrices([item for group in groups if "rule" not in group for item in group["params"]])
    ruled: list[dict[str, Any]] = []
    for group in groups:
        if "rule" in group:
            ruled.append(group)
            continue
        if "lr" in group:
            raise ValueError("A group with its own `lr` needs a `rule`: Muon and AdamW cannot share a learning rate.")
        for rule in ("muon", "adamw"):
            part = [item for item in group["params"] if (id(_of(item)) in hidden) == (rule == "muon")]
            if part:
                ruled.append({**group, "params": part, "rule": rule})
    return ruled


def _groups(params: Params) -> list[dict[str, Any]]:
    items: list[Any] = list(params)
    if not items:
        raise ValueError("Muon got an empty list of parameters.")
    groups = [dict(group) for group in items] if isinstance(items[0], dict) else [{"params": items}]
    for group in groups:
        group["params"] = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
    return groups


def _hidden_matrices(items: list[Any]) -> set[int]:
    """Ids of the matrices of hidden layers: all but the head, the first convolution and embeddings."""
    matrices = [item for item in items if _is_matrix(_of(item))]
    heads = [item for item in matrices if _HEAD.search(_name(item))] or matrices[-1:]
    pixels = [item for item in matrices if _of(item).ndim > 2][:1]
    embeddings = [item for item in matrices if _EMBEDDING.search(_name(item))]
    return {id(_of(item)) for item in matrices} - {id(_of(item)) for item in (*heads, *pixels, *embeddings)}


def _check_rule(group: dict[str, Any]) -> None:
    if group.get("rule") not in ("muon", "adamw"):
        raise ValueError(f'A group\'s `rule` must be "muon" or "adamw", got {group.get("rule")!r}.')


def _of(item: Tensor | tuple[str, Tensor]) -> Tensor:
    return item[1] if isinstance(item, tuple) else item


def _name(item: Tensor | tuple[str, Tensor]) -> str:
    return item[0].lower() if isinstance(item, tuple) else ""


def _is_matrix(p: Tensor) -> bool:
    return p.ndim >= 2 and p.shape[0] > 1 and p[0].numel() > 1
