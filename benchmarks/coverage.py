"""How often the intervals hold the population's value, by simulation.

Worlds: three classes, logits drawn at random, labels drawn from probabilities whose top-label ECE (15 bins) is known:
calibrated; overconfident (true probabilities are the softmax of flattened logits); alternating (over- and
underconfident from bin to bin). The population's values come from the true probabilities of 2,000,000 samples, not from
labels; those of areas under curves from labels. Beside them the percentile bootstrap of the ECE, which most tools use.

Usage: python benchmarks/coverage.py [--samples 400]; benchmarks/metrics.py puts the same into its results.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from _record import provenance
from torch import Tensor

from surefoot.metrics import METRICS
from surefoot.metrics._ece import mean_absolute_gap, mean_square_gap, over_confidence, under_confidence
from surefoot.metrics._intervals import interval
from surefoot.metrics._kce import laplacian_pair_sum
from surefoot.metrics._sm_ece import smooth_error
from surefoot.metrics.bins import BinSums, equal_mass, equal_width
from surefoot.predictions import Predictions
from surefoot.table import Table

NUM_BINS = 15
LARGE = 2_000_000
NAMES = [name for name, metric in METRICS.items() if metric.evaluated]


def logits(n: int, generator: torch.Generator) -> Tensor:
    scale = 0.5 + 3 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
    return scale * torch.randn(n, 3, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class World:
    """Where labels come from."""

    name: str
    amount: float

    def truth(self, z: Tensor) -> Tensor:
        """The true probabilities of samples with logits z."""
        p = z.softmax(dim=1)
        if self.name == "overconfident":
            return (z * (1 - self.amount)).softmax(dim=1)
        if self.name == "alternating":
            top = p.max(dim=1)
            sign = 1 - 2 * (equal_width(top.values, num_bins=NUM_BINS) % 2).double()
            right = (top.values - self.amount * sign).clamp(0, 1)
            others = (1 - right) / (1 - top.values).clamp(min=1e-12)
            return (p * others[:, None]).scatter(1, top.indices[:, None], right[:, None])
        return p

    def sample(self, n: int, generator: torch.Generator) -> Predictions:
        """Logits and labels."""
        z = logits(n, generator)
        return Predictions(z, torch.multinomial(self.truth(z), 1, generator=generator)[:, 0])


def population(world: World) -> dict[str, float]:
    """Every metric's value with labels replaced by their probabilities."""
    generator = torch.Generator().manual_seed(1)
    z = logits(LARGE, generator)
    p, q = z.softmax(dim=1), world.truth(z)
    confidence, predicted = p.max(dim=1)
    right = q.gather(1, predicted[:, None])[:, 0]
    wide = BinSums.of(confidence, right, equal_width(confidence, num_bins=NUM_BINS), num_bins=NUM_BINS)
    even = BinSums.of(confidence, right, equal_mass(confidence, num_bins=NUM_BINS), num_bins=NUM_BINS)
    classes = [
        BinSums.of(a, b, equal_width(a, num_bins=NUM_BINS), num_bins=NUM_BINS) for a, b in zip(p.T, q.T, strict=True)
    ]
    gap = confidence - right
    drawn = Predictions(z, torch.multinomial(q, 1, generator=generator)[:, 0])
    values = {
        "accuracy": right.mean(),
        "nll": -(q * z.log_softmax(dim=1)).sum(dim=1).mean(),
        "brier": (p.square().sum(dim=1) - 2 * (p * q).sum(dim=1) + 1).mean(),
        "entropy": -(p * z.log_softmax(dim=1)).sum(dim=1).mean(),
        "mean_confidence": confidence.mean(),
        "ece": mean_absolute_gap(wide),
        "ada_ece": mean_absolute_gap(even),
        "classwise_ece": torch.stack([mean_absolute_gap(sums) for sums in classes]).mean(),
        "mce": wide.mean_gap.abs().max(),
        "rms_ce": mean_square_gap(wide).sqrt(),
        "debiased_rms_ce": mean_square_gap(wide).sqrt(),
        "sm_ece": smooth_error(confidence, gap / LARGE),
        "oe": over_confidence(wide),
        "ue": under_confidence(wide),
        "kce": laplacian_pair_sum(confidence, gap, nu=0.2).clamp(min=0).sqrt() / LARGE,
        "mmce": laplacian_pair_sum(confidence, gap, nu=0.4).clamp(min=0).sqrt() / LARGE,
    }
    for name in NAMES:
        if name not in values:
            values[name] = METRICS[name](drawn)
    return {name: float(value) for name, value in values.items()}


def world_with(name: str, ece: float) -> tuple[World, dict[str, float]]:
    """The world of this kind in which the population's ECE is the one asked for."""
    if ece == 0:
        return World("calibrated", 0.0), population(World("calibrated", 0.0))
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if population_ece(World(name, middle)) < ece else (low, middle)
    return World(name, low), population(World(name, low))


def population_ece(world: World) -> float:
    """The ECE alone, for the search."""
    z = logits(200_000, torch.Generator().manual_seed(1))
    confidence, predicted = z.softmax(dim=1).max(dim=1)
    right = world.truth(z).gather(1, predicted[:, None])[:, 0]
    return float(
        mean_absolute_gap(BinSums.of(confidence, right, equal_width(confidence, num_bins=NUM_BINS), num_bins=NUM_BINS))
    )


def percentile_bootstrap(predictions: Predictions, generator: torch.Generator) -> tuple[float, float]:
    """Of the ECE, for comparison: 95 % of its values on samples drawn again from the sample."""
    n = predictions.num_samples
    gap = predictions.confidence - predictions.correct.double()
    bins = equal_width(predictions.confidence, num_bins=NUM_BINS)
    again = torch.randint(n, (200, n), generator=generator)
    place = bins[again] + NUM_BINS * torch.arange(200)[:, None]
    sums = torch.bincount(place.flatten(), weights=gap[again].flatten(), minlength=200 * NUM_BINS)
    low, high = (sums.view(200, NUM_BINS) / n).abs().sum(dim=1).quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    return low, high


def coverage(
    world: World, truth: dict[str, float], *, n: int, samples: int, progress: Callable[[int], None]
) -> dict[str, float]:
    """Share of samples whose interval holds the truth."""
    covered = dict.fromkeys([*NAMES, "bootstrap"], 0)
    for seed in range(samples):
        generator = torch.Generator().manual_seed(1000 + seed)
        predictions = world.sample(n, generator)
        for name in NAMES:
            estimate = interval(name, predictions)
            covered[name] += estimate.low - 1e-9 <= truth[name] <= estimate.high + 1e-9
        low, high = percentile_bootstrap(predictions, generator)
        covered["bootstrap"] += low <= truth["ece"] <= high
        progress(seed)
    return {name: count / samples for name, count in covered.items()}


def coverage_table(samples: int) -> Table:
    """Every world and sample size."""
    columns: list[str] = []
    shares: list[dict[str, float]] = []
    for kind, ece in (
        ("calibrated", 0.0),
        ("overconfident", 0.03),
        ("alternating", 0.03),
        ("overconfident", 0.1),
        ("alternating", 0.1),
    ):
        world, truth = world_with(kind, ece)
        for n in (500, 10_000):
            columns.append(f"{kind} {ece:g}, n = {n:,}")
            shares.append(coverage(world, truth, n=n, samples=samples, progress=lambda done: None))
            low = {name: value for name, value in shares[-1].items() if value < 0.93}
            print(f"{columns[-1]}: below 0.93: {low}", file=sys.stderr)
    return Table(
        name="coverage",
        title=f"How often 95 % intervals hold the population's value ({samples} samples each)",
        columns=("metric", *columns),
        rows=tuple(
            (
                "ece, percentile bootstrap" if name == "bootstrap" else name,
                *(round(cell[name], 3) for cell in shares),
            )
            for name in [*NAMES, "bootstrap"]
        ),
        notes=(
            provenance(f"python benchmarks/coverage.py --samples {samples}"),
            f"Seeds 1000 to {999 + samples}. Columns: kind of world, its ECE in 15 bins, sample size. Three classes.",
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=400)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(coverage_table(arguments.samples).markdown())


if __name__ == "__main__":
    main()
