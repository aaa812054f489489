"""How fast metrics and maps are, as ratios against other tools within one run, and how often intervals hold the truth.

One thread, CPU time, the least of several repeats that alternate between the tools. Memory is what a call adds to the
process's peak. Peers that are not installed are left out and named. torch-uncertainty wants torchvision when it is
imported, for plots; an empty module takes its place here.

Usage: make bench NAME=metrics
"""

import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import torch
from _record import benchmark_parser, provenance, write_tables
from _timing import cpu_seconds
from coverage import coverage_table
from torch import Tensor

from surefoot.metrics import classwise_ece, ece, interval, kce, sm_ece
from surefoot.posthoc import Temperature
from surefoot.predictions import Predictions
from surefoot.table import Cell, Table

Call = Callable[[], object]


def least_cpu_seconds(calls: dict[str, Call], *, repeats: int) -> dict[str, float]:
    """The least CPU time of each call, their repeats taking turns."""
    best = dict.fromkeys(calls, math.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            best[name] = min(best[name], cpu_seconds(call))
    return best


def extra_megabytes(call: Call) -> float:
    """How far the process's peak memory rises above its present use during the call."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _memory("VmRSS")
    call()
    return max(0.0, _memory("VmHWM") - before) / 1024


def _memory(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1])


def sample(n: int, k: int, *, seed: int = 0, temperature: float = 1.8) -> tuple[Tensor, Tensor]:
    """Logits of a classifier whose best temperature is about the one asked for."""
    generator = torch.Generator().manual_seed(seed)
    true = 2 * torch.randn(n, k, generator=generator)
    labels = torch.multinomial(true.softmax(dim=1), 1, generator=generator)[:, 0]
    return true * temperature, labels


def ece_row() -> list[tuple[Cell, ...]]:
    from torchmetrics.functional.classification import multiclass_calibration_error

    logits, labels = sample(1_000_000, 10)
    exact = exact_ece(logits, labels)
    values: dict[str, float] = {}
    calls: dict[str, Call] = {
        "surefoot": lambda: values.__setitem__("surefoot", float(ece(Predictions(logits, labels)))),
        "torchmetrics": lambda: values.__setitem__(
            "torchmetrics", float(multiclass_calibration_error(logits, labels, num_classes=10, n_bins=15))
        ),
    }
    seconds = least_cpu_seconds(calls, repeats=7)
    ratio = seconds["surefoot"] / seconds["torchmetrics"]
    errors = {name: abs(value - exact) for name, value in values.items()}
    assert errors["surefoot"] < 1e-12, errors
    what = "ECE, 1,000,000 x 10 float32 logits"
    note = f"off by {errors['surefoot']:.0e}, torchmetrics by {errors['torchmetrics']:.0e}"
    return [(what, "torchmetrics", seconds["surefoot"], seconds["torchmetrics"], f"{ratio:.2f}", "at most 0.8", note)]


def exact_ece(logits: Tensor, labels: Tensor) -> float:
    """Independently, with numpy and exact sums."""
    z = logits.numpy().astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    confidence = 1 / np.exp(z).sum(axis=1)
    gap = confidence - (z.argmax(axis=1) == labels.numpy())
    bins = np.ceil(confidence * 15)
    return sum(abs(math.fsum(gap[bins == b])) for b in np.unique(bins)) / len(gap)


def classwise_rows() -> list[tuple[Cell, ...]]:
    logits, labels = sample(50_000, 1000)
    probabilities = logits.softmax(dim=1)
    array, truth = probabilities.numpy(), labels.numpy()
    peers: dict[str, Call] = {}
    try:
        from pycalib.metrics import classwise_ECE

        peers["pycalib"] = lambda: classwise_ECE(truth, array, bins=15)
    except ImportError:
        print("pycalib is not installed", file=sys.stderr)
    try:
        for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional"):
            sys.modules.setdefault(name, MagicMock(name=name, __path__=[], __spec__=None))
        from torch_uncertainty.metrics.classification import ClasswiseCalibrationError

        def torch_uncertainty() -> object:
            metric = ClasswiseCalibrationError(num_bins=15, num_classes=1000)
            metric.update(probabilities, labels)
            return metric.compute()

        peers["torch-uncertainty"] = torch_uncertainty
    except ImportError as error:
        print(f"torch-uncertainty is not installed: {error}", file=sys.stderr)
    memory = extra_megabytes(lambda: classwise_ece(Predictions(logits, labels)))
    seconds = least_cpu_seconds({"surefoot": lambda: classwise_ece(Predictions(logits, labels))}, repeats=5)
    seconds |= least_cpu_seconds(peers, repeats=1)
    mine = float(classwise_ece(Predictions(logits, labels)))
    what = "classwise ECE, 50,000 x 1,000 (theirs from probabilities, ours from logits)"
    rows: list[tuple[Cell, ...]] = []
    for name, call in peers.items():
        value = call()
        off = abs(mine - float(value))  # type: ignore[arg-type]
        rows.append(
            (
                what,
                name,
                seconds["surefoot"],
                seconds[name],
                f"{seconds[name] / seconds['surefoot']:.0f}x faster",
                "at least 10x faster, under 500 MB extra",
                f"{memory:.0f} MB extra; values {mine:.6f}, differ by {off:.0e}",
            )
        )
    return rows


def temperature_rows() -> list[tuple[Cell, ...]]:
    from sklearn.calibration import _TemperatureScaling

    logits, labels = sample(50_000, 100)
    array, truth = logits.numpy(), labels.numpy()
    calls: dict[str, Call] = {
        "surefoot": lambda: Temperature.fit(Predictions(logits, labels)),
        "scikit-learn": lambda: _TemperatureScaling().fit(array, truth),
    }
    seconds = least_cpu_seconds(calls, repeats=5)
    worst = 0.0
    for temperature in (0.05, 0.3, 1.0, 1.8, 7.0, 20.0):
        for kind in (torch.float32, torch.float64):
            z, y = sample(20_000, 20, temperature=temperature)
            z = z.to(kind)
            best = best_temperature(z.double(), y)
            worst = max(worst, abs(Temperature.fit(Predictions(z, y)).temperature / best - 1))
    assert worst < 1e-5, worst
    ratio = seconds["scikit-learn"] / seconds["surefoot"]
    row = (
        "temperature, 50,000 x 100 float32",
        "scikit-learn",
        seconds["surefoot"],
        seconds["scikit-learn"],
        f"{ratio:.1f}x faster",
        "at least 2.5x faster, T to 1e-5",
        f"T within {worst:.0e} of the float64 optimum for T from 0.05 to 20, float32 and float64",
    )
    return [row]


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """By bisection on the sign of the NLL's slope, slowly and surely."""
    true = logits.gather(1, labels[:, None])[:, 0]
    low, high = math.log(1e-3), math.log(1e3)  # of 1/T
    for _ in range(60):
        middle = (low + high) / 2
        mean = ((math.exp(middle) * logits).softmax(dim=1) * logits).sum(dim=1)
        low, high = (middle, high) if float((mean - true).mean()) < 0 else (low, middle)
    return math.exp(-low)


def kernel_rows() -> list[tuple[Cell, ...]]:
    p = Predictions(*sample(1_000_000, 10))
    confidence = p.confidence
    p.correct  # noqa: B018 (kept by the predictions, as for every metric after the first)
    seconds = least_cpu_seconds({"kce": lambda: kce(p), "sort": lambda: confidence.sort()}, repeats=7)
    ratio = seconds["kce"] / seconds["sort"]
    return [
        (
            "top-label KCE, 1,000,000 samples",
            "torch.sort",
            seconds["kce"],
            seconds["sort"],
            f"{ratio:.2f} times the sort",
            "under 3 times",
            "exact, O(N log N)",
        )
    ]


def smooth_rows() -> list[tuple[Cell, ...]]:
    from probcal.metrics import smooth_ece

    p = Predictions(*sample(1_000_000, 10))
    correct, confidence = p.correct.double().numpy(), p.confidence.numpy()
    seconds = least_cpu_seconds(
        {"ours": lambda: sm_ece(p), "theirs": lambda: smooth_ece(correct, confidence)}, repeats=5
    )
    off = abs(float(sm_ece(p)) - float(smooth_ece(correct, confidence)))
    ratio = seconds["ours"] / seconds["theirs"]
    note = f"values differ by {off:.0e}; theirs does not reflect at 0 and 1"
    return [("smooth ECE, 1,000,000 samples", "probcal", seconds["ours"], seconds["theirs"], f"{ratio:.2f}", "-", note)]


def interval_rows() -> list[tuple[Cell, ...]]:
    import calibration

    p = Predictions(*sample(10_000, 10))
    array, truth = p.probabilities.numpy(), p.labels.numpy()
    ours = least_cpu_seconds({"ours": lambda: interval("ece", p, num_replicates=1000)}, repeats=5)["ours"]
    begun = time.process_time()
    calibration.get_calibration_error_uncertainties(array, truth, p=1, mode="top-label")
    theirs = time.process_time() - begun
    return [
        (
            "interval of the ECE, 1,000 replicates, n = 10,000",
            "uncertainty-calibration",
            ours,
            theirs,
            f"{theirs / ours:.0f}x faster",
            "under 1 s",
            "theirs is a bootstrap at the wrong level",
        )
    ]


def evaluate_rows() -> list[tuple[Cell, ...]]:
    logits, labels = sample(1_000_000, 10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.npz"
        np.savez(path, logits=logits.numpy(), labels=labels.numpy())
        command = [sys.executable, "-m", "surefoot.cli", "evaluate", str(path), "--json"]
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [
        (
            "surefoot evaluate, 1,000,000 x 10, whole command, wall time",
            "-",
            seconds,
            None,
            f"{seconds:.1f} s",
            "under 20 s and 1,500 MB",
            f"peak {peak:,.0f} MB in all",
        )
    ]


def peer_versions() -> list[str]:
    names = []
    for name in (
        "torchmetrics",
        "netcal",
        "probcal",
        "uncertainty-calibration",
        "relplot",
        "pycalib",
        "torch-uncertainty",
    ):
        try:
            names.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            names.append(f"{name} absent")
    return names


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--coverage-samples", type=int, default=400, help="0 leaves the simulation out")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[tuple[Cell, ...]] = []
    parts = (evaluate_rows, ece_row, classwise_rows, temperature_rows, kernel_rows, smooth_rows, interval_rows)
    for part in parts:
        rows += part()
        print(rows[-1], file=sys.stderr)
    table = Table(
        name="metrics",
        title="Metrics and maps against the fastest correct peer, one thread",
        columns=("what", "against", "seconds", "their seconds", "ratio", "bar", "beside it"),
        rows=tuple(rows),
        notes=(
            provenance(
                f"python benchmarks/metrics.py --coverage-samples {arguments.coverage_samples}", peers=peer_versions()
            ),
            "CPU seconds of the fastest of 5 to 7 repeats (1 for the peers of the classwise ECE and of the interval).",
        ),
    )
    coverage = [coverage_table(arguments.coverage_samples)] if arguments.coverage_samples else []
    write_tables(arguments.out, table, *coverage)


if __name__ == "__main__":
    main()
