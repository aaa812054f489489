"""How far the weights can move a sample's logits: the largest singular value of its Jacobian."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F

from surefoot.curvature.matrix import looking

_NUMBERS = 2**26  # of Jacobian entries held at once


def jacobian_norms(model: nn.Module, inputs: Tensor, *, chunk_size: int | None = None) -> Tensor:
    """||J_i|| of every sample [N], J_i = d logits_i / d weights: the root of the largest eigenvalue of J_i J_i^T.

    Where all weights belong to linear layers and convolutions that each run once, J_i J_i^T [K, K] comes from the
    layers' inputs and the slopes at their outputs: K backward passes without weights. Otherwise J_i is written out,
    some samples at a time.
    """
    with looking(model):
        size = chunk_size or len(inputs)
        parts = [_grams(model, chunk) for chunk in torch.split(inputs, size)]
    largest: Tensor = torch.linalg.eigvalsh(torch.cat(parts).double())[:, -1]
    return largest.clamp(min=0).sqrt()


def _grams(model: nn.Module, inputs: Tensor) -> Tensor:
    """J_i J_i^T of every sample, [N, K, K]."""
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d) and m.weight.requires_grad]
    simple = {id(p) for m in layers for p in (m.weight, m.bias) if p is not None}
    trained = [p for p in model.parameters() if p.requires_grad]
    covered = all(id(p) in simple for p in trained) and all(m.bias is None or m.bias.requires_grad for m in layers)
    seen: list[tuple[nn.Module, Tensor, Tensor]] = []

    def look(module: nn.Module, given: Any, output: Tensor) -> None:
        seen.append((module, given[0].detach(), output))

    hooks = [module.register_forward_hook(look) for module in layers] if covered else []
    try:
        logits: Tensor = model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    once = covered and len(seen) == len({id(module) for module, _, _ in seen})
    if not once or not all(_plain(module, given) for module, given, _ in seen) or not seen:
        return _written_out(model, inputs)
    outputs = [output for _, _, output in seen]
    slopes = [
        torch.autograd.grad(logits[:, k].sum(), outputs, retain_graph=True, materialize_grads=True)
        for k in range(logits.shape[1])
    ]
    total = logits.new_zeros(len(inputs), logits.shape[1], logits.shape[1], dtype=torch.float64)
    for place, (module, given, _) in enumerate(seen):
        back = torch.stack([row[place] for row in slopes], dim=1)  # [N, K, ...]
        total += _gram_of(module, given, back).double()
    return total


def _plain(module: nn.Module, given: Tensor) -> bool:
    return given.ndim == 2 if isinstance(module, nn.Linear) else isinstance(module, nn.Conv2d) and module.groups == 1


def _gram_of(module: nn.Module, given: Tensor, back: Tensor) -> Tensor:
    has_bias = module.bias is not None
    if isinstance(module, nn.Linear):
        inner = torch.einsum("nkd,nld->nkl", back, back)
        return inner * (given.square().sum(dim=1) + has_bias)[:, None, None]
    assert isinstance(module, nn.Conv2d)
    pad = module._reversed_padding_repeated_twice
    padded = F.pad(given, pad, mode="constant" if module.padding_mode == "zeros" else module.padding_mode)
    patches = F.unfold(padded, module.kernel_size, dilation=module.dilation, stride=module.stride)
    slopes = torch.einsum("nkol,ncl->nkoc", back.flatten(3), patches).flatten(2)
    gram = torch.einsum("nkp,nlp->nkl", slopes, slopes)
    if has_bias:
        sums = back.flatten(3).sum(dim=3)
        gram = gram + torch.einsum("nko,nlo->nkl", sums, sums)
    return gram


def _written_out(model: nn.Module, inputs: Tensor) -> Tensor:
    weights = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def one(given: dict[str, Tensor], sample: Tensor) -> Tensor:
        logits: Tensor = functional_call(model, given, (sample[None],))
        return logits[0]

    with torch.no_grad():
        num_classes = model(inputs[:1]).shape[1]
    size = max(1, _NUMBERS // (num_classes * sum(p.numel() for p in weights.values())))
    grams = []
    for chunk in torch.split(inputs, size):
        parts = vmap(jacrev(one), in_dims=(None, 0))(weights, chunk)
        rows = torch.cat([part.flatten(2) for part in parts.values()], dim=2)  # [n, K, P]
        grams.append(torch.einsum("nkp,nlp->nkl", rows, rows).double())
    return torch.cat(grams)
