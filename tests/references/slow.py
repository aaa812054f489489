"""Metrics once more, one sample at a time, with nothing but the definition."""

import itertools
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


def bins(pairs: list[tuple[float, bool]], num_bins: int) -> list[tuple[int, float, float]]:
    """Count, mean score and mean hit of every equal-width bin (a, b] that is not empty."""
    found = []
    for b in range(num_bins):
        inside = [
            (c, a)
            for c, a in pairs
            if (b / num_bins < c <= (b + 1) / num_bins) or (b == 0 and c == 0) or (b == num_bins - 1 and c > 1)
        ]
        if inside:
            found.append(
                (len(inside), sum(c for c, _ in inside) / len(inside), sum(a for _, a in inside) / len(inside))
            )
    return found


def ece(logits: Tensor, labels: Tensor, num_bins: int) -> float:
    pairs = top_label(logits, labels)
    return sum(n / len(pairs) * abs(right - confidence) for n, confidence, right in bins(pairs, num_bins))


def binned(logits: Tensor, labels: Tensor, num_bins: int) -> dict[str, float]:
    """MCE, RMSCE, the debiased one, OE and UE."""
    pairs = top_label(logits, labels)
    found = bins(pairs, num_bins)
    debiased = sum(n * ((a - c) ** 2 - a * (1 - a) / (n - 1)) for n, c, a in found if n > 1) / len(pairs)
    return {
        "mce": max(abs(a - c) for _, c, a in found),
        "rms_ce": math.sqrt(sum(n * (a - c) ** 2 for n, c, a in found) / len(pairs)),
        "debiased_rms_ce": math.sqrt(max(debiased, 0.0)),
        "oe": sum(n * c * max(c - a, 0) for n, c, a in found) / len(pairs),
        "ue": sum(n * c * max(a - c, 0) for n, c, a in found) / len(pairs),
    }


def ada_ece(logits: Tensor, labels: Tensor, num_bins: int) -> float:
    """Without ties: sorted, the b-th bin ends at sample ceil(n b / num_bins)."""
    pairs = sorted(top_label(logits, labels))
    ends = [math.ceil(len(pairs) * b / num_bins) for b in range(num_bins + 1)]
    return sum(abs(sum(c - a for c, a in pairs[start:end])) / len(pairs) for start, end in itertools.pairwise(ends))


def classwise_ece(logits: Tensor, labels: Tensor, num_bins: int) -> float:
    rows = [softmax(row) for row in logits.double().tolist()]
    total = 0.0
    for k in range(logits.shape[1]):
        pairs = [(row[k], label == k) for row, label in zip(rows, labels.tolist(), strict=True)]
        total += sum(n / len(pairs) * abs(a - c) for n, c, a in bins(pairs, num_bins))
    return total / logits.shape[1]


def brier(logits: Tensor, labels: Tensor) -> float:
    rows = zip([softmax(row) for row in logits.double().tolist()], labels.tolist(), strict=True)
    return sum(sum((p - (k == label)) ** 2 for k, p in enumerate(row)) for row, label in rows) / len(labels)


def entropy(logits: Tensor) -> float:
    rows = [softmax(row) for row in logits.double().tolist()]
    return -sum(p * math.log(p) for row in rows for p in row if p > 0) / len(rows)


def smooth_error(pairs: list[tuple[float, bool]], width: float, num_points: int = 4000) -> float:
    """The smoothed gap's integral by the midpoint rule, all images within ten widths written out."""
    reach = math.ceil(5 * width) + 1
    points = torch.tensor([c for c, _ in pairs], dtype=torch.float64)
    gaps = torch.tensor([c - a for c, a in pairs], dtype=torch.float64)
    at = (torch.arange(num_points, dtype=torch.float64) + 0.5) / num_points
    field = torch.zeros(num_points, dtype=torch.float64)
    for m in range(-reach, reach + 1):
        for image in (points + 2 * m, -points + 2 * m):
            field += (torch.exp(-0.5 * ((at[:, None] - image) / width) ** 2) * gaps).sum(dim=1)
    total = float(field.abs().sum()) / num_points
    return total / (width * math.sqrt(2 * math.pi) * len(pairs))


def sm_ece(pairs: list[tuple[float, bool]]) -> float:
    low, high = 1e-4, 1.0
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if smooth_error(pairs, middle) > middle else (low, middle)
    return (low + high) / 2


def auroc(scores: list[float], positive: list[bool]) -> float:
    """All pairs, one by one."""
    above = [s for s, p in zip(scores, positive, strict=True) if p]
    below = [s for s, p in zip(scores, positive, strict=True) if not p]
    return sum((a > b) + 0.5 * (a == b) for a in above for b in below) / (len(above) * len(below))


def aurc(pairs: list[tuple[float, bool]]) -> float:
    """Without ties."""
    errors = [not a for _, a in sorted(pairs, reverse=True)]
    return sum(sum(errors[: k + 1]) / (k + 1) for k in range(len(errors))) / len(errors)


def skce_pairs(logits: Tensor, labels: Tensor, nu: float) -> list[list[float]]:
    rows = [softmax(row) for row in logits.double().tolist()]
    off = [[(k == label) - p for k, p in enumerate(row)] for row, label in zip(rows, labels.tolist(), strict=True)]
    return [
        [
            math.exp(-sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2 / nu)
            * sum(a * b for a, b in zip(r, s, strict=True))
            for q, s in zip(rows, off, strict=True)
        ]
        for p, r in zip(rows, off, strict=True)
    ]


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
