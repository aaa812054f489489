"""Curvature sample by sample: how far the weights can move a sample's logits, and how much its loss minds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F

from surefoot.curvature.matrix import differentiable_eval
from surefoot.eval_mode import refuse_training
from surefoot.theory._logit_curvature import logit_hessians

_NUMBERS = 2**26  # held at once: of Jacobians, slopes or patches
_LAYERS = (nn.Linear, nn.Conv2d)  # exactly these: a subclass may compute anything


@dataclass(frozen=True, eq=False)
class SampleCurvature:
    """Of every sample, J_i = d logits_i / d weights and H_i = diag p_i - p_i p_i^T."""

    norms: Tensor  # [N], ||J_i||, the largest singular value
    sharpness: Tensor  # [N], the largest eigenvalue of J_i^T H_i J_i


def sample_curvature(
    model: nn.Module, inputs: Tensor, *, rank: int | None = None, chunk_size: int | None = None
) -> SampleCurvature:
    """The norms of the Jacobians and the Gauss-Newton sharpness of every sample alone, exactly.

    From the matrices J_i J_i^T [K, K]: where all weights belong to linear layers and convolutions that each run once,
    they come from the layers' inputs and the slopes at their outputs, for K backward passes without weights; otherwise
    J_i is written out, some samples at a time. With a `rank`, J_i is looked at only along that many leading
    eigenvectors of H_i: `rank` backward passes, and both numbers come out too small, never too large.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.zero_()
    >>> curvature = sample_curvature(model, torch.tensor([[3.0, 4.0]]))
    >>> round(curvature.norms.item(), 6), round(curvature.sharpness.item(), 6)  # p = 1/2: H has the eigenvalue 1/2
    (5.0, 12.5)
    """
    refuse_training(model)
    if not len(inputs):
        raise ValueError("`inputs` must hold at least 1 sample, got 0.")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"`chunk_size` must be at least 1, got {chunk_size}.")
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("`model` must have at least one parameter that requires a gradient, got none.")
    with differentiable_eval(model):
        num_classes, numbers = _footprint(model, inputs[:1])
        if rank is not None and not 1 <= rank <= num_classes:
            raise ValueError(f"`rank` must be between 1 and the number of classes, {num_classes}, got {rank}.")
        size = chunk_size or max(1, _NUMBERS // numbers)
        parts = [_curvature(model, chunk, rank) for chunk in torch.split(inputs, size)]
    return SampleCurvature(torch.cat([p.norms for p in parts]), torch.cat([p.sharpness for p in parts]))


def _footprint(model: nn.Module, one: Tensor) -> tuple[int, int]:
    """The number of classes, and about how many numbers a sample's slopes and patches are."""
    sizes: list[tuple[int, int]] = []

    def record_size(module: nn.Module, given: Any, output: Any) -> None:
        patches = output[0, 0].numel() * module.weight[0].numel() if isinstance(module, nn.Conv2d) else 0
        sizes.append((patches, output.numel()))

    hooks = [module.register_forward_hook(record_size) for module in model.modules() if type(module) in _LAYERS]
    try:
        with torch.no_grad():
            num_classes = model(one).shape[1]
    finally:
        for hook in hooks:
            hook.remove()
    return num_classes, sum(patches + num_classes * outputs for patches, outputs in sizes) + 4 * num_classes**2


def _curvature(model: nn.Module, inputs: Tensor, rank: int | None) -> SampleCurvature:
    with torch.no_grad():
        logits = model(inputs)
    values, vectors = torch.linalg.eigh(logit_hessians(logits))
    weights = values.clamp(min=0).sqrt()
    if rank is None:
        gram = _grams(model, inputs, None)
        inside = vectors.mT @ gram @ vectors
    else:
        weights, vectors = weights[:, -rank:], vectors[:, :, -rank:]
        gram = inside = _grams(model, inputs, vectors.mT.to(logits))
    scaled = weights[:, :, None] * inside * weights[:, None, :]
    norms = torch.linalg.eigvalsh(gram)[:, -1].clamp(min=0).sqrt()
    return SampleCurvature(norms, torch.linalg.eigvalsh(scaled)[:, -1].clamp(min=0))


def _grams(model: nn.Module, inputs: Tensor, directions: Tensor | None) -> Tensor:
    """V_i J_i J_i^T V_i^T of every sample, [N, R, R] for `directions` V [N, R, K]; without them V_i = I."""
    layers = [m for m in model.modules() if type(m) in _LAYERS and m.weight.requires_grad and not _hooked(m)]
    trained = [p for p in model.parameters() if p.requires_grad]
    if not _cover(layers, trained):
        return _written_out(model, inputs, directions)
    logits, calls = _recorded(model, inputs, layers)
    if not calls or not _each_once(logits, trained) or not all(_plain(*call, len(inputs)) for call in calls):
        return _written_out(model, inputs, directions)
    outputs = [output for _, _, output in calls]
    rows = logits if directions is None else torch.einsum("nrk,nk->nr", directions, logits)
    slopes = [
        torch.autograd.grad(row.sum(), outputs, retain_graph=True, materialize_grads=True) for row in rows.unbind(dim=1)
    ]
    total = logits.new_zeros(len(inputs), len(slopes), len(slopes), dtype=torch.float64)
    for place, (module, given, _) in enumerate(calls):
        back = torch.stack([row[place] for row in slopes], dim=1)  # [N, R, ...]
        total += _gram_of(module, given, back).double()
    return total


def _cover(layers: Sequence[nn.Module], trained: Sequence[Tensor]) -> bool:
    """Whether the layers hold all trained parameters, and train all of their own."""
    own = {id(p) for m in layers for p in (m.weight, m.bias) if p is not None}
    return all(id(p) in own for p in trained) and all(m.bias is None or m.bias.requires_grad for m in layers)


def _recorded(
    model: nn.Module, inputs: Tensor, layers: Sequence[nn.Module]
) -> tuple[Tensor, list[tuple[nn.Module, Tensor, Tensor]]]:
    """The logits, and each layer's calls in order: the layer, its input without a graph, its output."""
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []

    def record(module: nn.Module, given: Any, output: Tensor) -> Tensor:
        calls.append((module, given[0].detach(), output))
        return output.clone()  # what comes next may work in place

    hooks = [module.register_forward_hook(record) for module in layers]
    try:
        logits: Tensor = model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return logits, calls


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _each_once(logits: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether every weight enters the graph of the logits at most once: not twice, not by another name."""
    uses: dict[int, int] = {}
    nodes, waiting = set(), [logits.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            continue
        for after, _ in node.next_functions:
            variable = getattr(after, "variable", None)
            if variable is not None:
                uses[id(variable)] = uses.get(id(variable), 0) + 1
            waiting.append(after)
    return all(uses.get(id(weight), 0) <= 1 for weight in weights)


def _plain(module: nn.Module, given: Tensor, output: Tensor, number: int) -> bool:
    if len(given) != number or given.dtype != output.dtype:
        return False
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


def _written_out(model: nn.Module, inputs: Tensor, directions: Tensor | None) -> Tensor:
    weights = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def one(given: dict[str, Tensor], sample: Tensor, along: Tensor) -> Tensor:
        logits: Tensor = functional_call(model, given, (sample[None],))
        return along @ logits[0]

    if directions is None:
        with torch.no_grad():
            logits = model(inputs[:1])
        directions = torch.eye(logits.shape[1]).to(logits).expand(len(inputs), -1, -1)
    size = max(1, _NUMBERS // (directions.shape[1] * sum(p.numel() for p in weights.values())))
    grams = []
    for chunk, along in zip(torch.split(inputs, size), torch.split(directions, size), strict=True):
        parts = vmap(jacrev(one), in_dims=(None, 0, 0))(weights, chunk, along)
        rows = torch.cat([part.flatten(2) for part in parts.values()], dim=2)  # [n, K, P]
        grams.append(torch.einsum("nkp,nlp->nkl", rows, rows).double())
    return torch.cat(grams)
