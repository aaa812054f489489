"""Metrics once more, one sample at a time, with nothing but the definition."""

import math

import torch
from torch import Tensor


def softmax(row: list[float]) -> list[float]:
    top = max(row)
    weights = [math.exp(value - top) for value in row]
    return [weight / sum(weights) for weight in weights]


def top_label(logits: Tensor, labels: Tensor) -> list[tuple[float, bool]]:
    pairs = []
    for row, label in zip(logits.double().tolist(), labels.tolist(), strict=True):
        probabilities = softmax(row)
        best = max(range(len(row)), key=lambda k: (row[k], -k))
        pairs.append((probabilities[best], best == label))
    return pairs


def ece(logits: Tensor, labels: Tensor, num_bins: int) -> float:
    pairs = top_label(logits, labels)
    total = 0.0
    for b in range(num_bins):
        inside = [
            (c, a)
            for c, a in pairs
            if (b / num_bins < c <= (b + 1) / num_bins) or (b == 0 and c == 0) or (b == num_bins - 1 and c > 1)
        ]
        if inside:
            confidence = sum(c for c, _ in inside) / len(inside)
            right = sum(a for _, a in inside) / len(inside)
            total += len(inside) / len(pairs) * abs(right - confidence)
    return total


def kce(logits: Tensor, labels: Tensor, nu: float) -> float:
    pairs = top_label(logits, labels)
    total = sum((a - c) * (b - d) * math.exp(-abs(c - d) / nu) for c, a in pairs for d, b in pairs)
    return math.sqrt(max(total, 0.0)) / len(pairs)


def margins(logits: Tensor, labels: Tensor) -> list[float]:
    found = []
    for row, label in zip(logits.double().tolist(), labels.tolist(), strict=True):
        found.append(row[label] - max(value for k, value in enumerate(row) if k != label))
    return found


def nll(logits: Tensor, labels: Tensor) -> float:
    rows = zip(logits.double().tolist(), labels.tolist(), strict=True)
    return -sum(math.log(softmax(row)[label]) for row, label in rows) / len(labels)


def random_case(seed: int, *, n: int = 60, k: int = 4, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, k, (n,), generator=generator)
    return logits, labels
