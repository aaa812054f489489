"""What certified sharpness costs, in gradients, beside other tools: ratios within one run of this script.

1. Building a curvature matrix and one product with it.
2. The largest eigenvalue from scratch to 1 %: ours stops by its own bound; the others as they ship. Beside it the cost
   at which the value was first within 1 %, which only an oracle knows.
3. Ours followed every 10 steps of 500 steps of gradient descent into the edge of stability, to 2 %; beside it two warm
   power steps, which prove nothing, and what the others, which start from scratch, cost at some of these points.

All in CPU seconds on one thread over those of one gradient of all the data, set-up counted. Needs the venv of
`make bench NAME=curvature`; SUREFOOT_DATA must hold CIFAR-10.

Usage: python benchmarks/curvature.py [--part mlp|resnet] [--out results/benchmarks/curvature.md]
"""

import importlib
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from _record import benchmark_parser, provenance, write_tables
from _storage import Storage
from _timing import cpu_seconds, median_and_range
from torch import Tensor, nn

from surefoot.curvature import GGN, CurvatureMatrix, Hessian, SharpnessTracker, Tracked, eigenpairs
from surefoot.data import cifar10_5k
from surefoot.models import MLP, ResNet
from surefoot.params import flat
from surefoot.table import Cell, Table

LR = 2 / 40
PEERS = ("pyhessian", "hessian-eigenthings", "curvlinops-for-pytorch", "scipy")
MATRICES: dict[str, type[CurvatureMatrix]] = {"G": GGN, "H": Hessian}


@dataclass
class Case:
    """A model at some weights, its data, and the price of a gradient."""

    model: nn.Module
    inputs: Tensor
    labels: Tensor
    batch_size: int | None = None  # where all samples at once are too many for some tool's memory

    @property
    def batches(self) -> list[tuple[Tensor, Tensor]]:
        size = self.batch_size or len(self.labels)
        return list(zip(self.inputs.split(size), self.labels.split(size), strict=True))

    def gradient(self) -> None:
        self.model.zero_grad()
        for inputs, labels in self.batches:  # of equal size
            (nn.functional.cross_entropy(self.model(inputs), labels) / len(self.batches)).backward()

    def step(self) -> None:
        self.gradient()
        with torch.no_grad():
            for p in self.model.parameters():
                p.sub_(p.grad, alpha=LR)

    def unit(self, repeats: int = 5) -> float:
        self.gradient()
        return statistics.median(cpu_seconds(self.gradient) for _ in range(repeats))

    def matrix(self, kind: str) -> CurvatureMatrix:
        return MATRICES[kind].over(self.model, nn.CrossEntropyLoss(), self.batches)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of one call, and what it returns."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def mlp() -> Case:
    torch.manual_seed(0)
    data = cifar10_5k()
    model = MLP(input_shape=data.input_shape, num_classes=10, widths=(200, 200), activation="tanh")
    return Case(model, data.train.inputs, data.train.labels)


def resnet() -> Case:
    torch.manual_seed(0)
    data = cifar10_5k()
    model = ResNet(input_shape=(3, 32, 32), num_classes=10, depth=20)
    return Case(model, data.train.inputs[:1000].reshape(-1, 3, 32, 32), data.train.labels[:1000], batch_size=250)


def truth(case: Case, kind: str) -> float:
    matrix = case.matrix(kind)
    (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=1e-3, max_matvecs=300)
    assert pair.converged
    return pair.value


# Ours and the others: each returns the largest eigenvalue and the number of products.


def ours(case: Case, kind: str) -> tuple[float, int]:
    matrix = case.matrix(kind)
    (pair,) = eigenpairs(matrix.__matmul__, matrix.like, tolerance=0.01)
    assert pair.converged
    return pair.value, pair.num_matvecs


def first_within(case: Case, kind: str, true: float) -> int:
    """After how many products our value was within 1 % of the truth."""
    matrix = case.matrix(kind)
    given: list[Tensor] = []
    images: list[Tensor] = []

    def watched(v: Tensor) -> Tensor:
        given.append(v.clone())
        images.append(matrix @ v)
        return images[-1].clone()

    eigenpairs(watched, matrix.like, tolerance=0.01)
    whole = torch.stack(given) @ torch.stack(images).T
    for number in range(1, len(given) + 1):
        if float(torch.linalg.eigvalsh(whole[:number, :number].double())[-1]) >= 0.99 * true:
            return number
    raise AssertionError("never within 1 %")


def pyhessian(case: Case, kind: str) -> tuple[float, int]:
    module = importlib.import_module("pyhessian.hessian")  # the package has a class of that name
    products = 0
    original = module.hessian_vector_product

    def counted(*arguments: Any) -> Any:
        nonlocal products
        products += 1
        return original(*arguments)

    module.hessian_vector_product = counted
    data: dict[str, Any] = {"data": (case.inputs, case.labels)}
    if case.batch_size is not None:
        data = {"dataloader": case.batches}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (value,), _vectors = module.hessian(case.model, nn.CrossEntropyLoss(), cuda=False, **data).eigenvalues()
    finally:
        module.hessian_vector_product = original
        case.model.zero_grad()
    return float(value), products


def _eigenthings(case: Case, kind: str) -> Any:
    import hessian_eigenthings as he

    batches = case.batches
    if kind == "H":
        return he.HessianOperator(case.model, batches, he.supervised_loss(nn.functional.cross_entropy))
    operator = he.GGNOperator(
        case.model, batches, he.supervised_forward, he.supervised_loss_of_output(nn.functional.cross_entropy)
    )
    product = operator.matvec

    operator.matvec = lambda v: product(v).detach()  # it drags its graph along: 20 of the ResNet's need 24 GB
    return operator


def eigenthings_lanczos(case: Case, kind: str) -> tuple[float, int]:
    import hessian_eigenthings as he

    result = he.lanczos(_eigenthings(case, kind), seed=0)
    return float(result.eigenvalues[0]), 20  # k = 10, two steps each


def eigenthings_power(case: Case, kind: str) -> tuple[float, int]:
    import hessian_eigenthings as he

    value, _, _, iterations, _ = he.power_iteration_one(_eigenthings(case, kind), seed=0)
    return value, iterations


def curvlinops_eigsh(case: Case, kind: str) -> tuple[float, int]:
    from curvlinops import GGNLinearOperator, HessianLinearOperator
    from scipy.sparse.linalg import LinearOperator, eigsh

    build = HessianLinearOperator if kind == "H" else GGNLinearOperator
    params = [p for p in case.model.parameters() if p.requires_grad]
    operator = build(case.model, nn.CrossEntropyLoss(), params, case.batches).to_scipy(np.float32)
    products = 0

    def counted(v: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        return operator @ v

    (value,), _ = eigsh(LinearOperator(operator.shape, matvec=counted, dtype=np.float32), k=1)
    return float(value), products


TOOLS: dict[str, tuple[Callable[[Case, str], tuple[float, int]], str]] = {
    "surefoot, certified 1 %": (ours, "GH"),
    "PyHessian": (pyhessian, "H"),
    "hessian-eigenthings Lanczos": (eigenthings_lanczos, "GH"),
    "hessian-eigenthings power iteration": (eigenthings_power, "H"),
    "curvlinops + scipy eigsh": (curvlinops_eigsh, "GH"),
}


def products(name: str, case: Case) -> Iterator[tuple[Cell, ...]]:
    """What building and multiplying cost."""
    unit = case.unit()
    for kind, bar in (("G", "1.3"), ("H", "2.0")):
        building = [cpu_seconds(lambda kind=kind: case.matrix(kind)) / unit for _ in range(5)]
        matrix = case.matrix(kind)
        like = matrix.like
        matrix @ like
        multiplying = [cpu_seconds(lambda m=matrix, v=like: m @ v) / unit for _ in range(5)]
        yield name, kind, "building the matrix", median_and_range(building, digits=2), len(building), "-"
        yield name, kind, "one product", median_and_range(multiplying, digits=2), len(multiplying), bar


def cold(name: str, case: Case, tools: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    """From scratch."""
    for kind in "GH":
        true = truth(case, kind)
        unit = case.unit()
        for tool, (measure, kinds) in tools.items():
            if kind not in kinds:
                continue
            spent, (value, number) = timed(lambda m=measure, k=kind: m(case, k))
            yield name, kind, tool, f"{spent / unit:.1f}", number or "-", f"{abs(value - true) / true:.2%}"
            print(name, kind, tool, f"{spent / unit:.1f}", number, f"{abs(value - true) / true:.2%}", flush=True)
            if measure is ours:
                early = first_within(case, kind, true)
                cost = cpu_seconds(lambda k=kind: case.matrix(k)) / unit
                matrix = case.matrix(kind)
                cost += early * statistics.median(cpu_seconds(lambda m=matrix: m @ m.like) for _ in range(3)) / unit
                yield name, kind, "surefoot, stopped by an oracle at 1 %", f"{cost:.1f}", early, "1.00%"


def tracking(case: Case, kind: str, tools: dict[str, Any]) -> tuple[list[tuple[Cell, ...]], str]:
    """Along gradient descent."""
    trackers = {
        "surefoot, certified 2 % at 95 %": SharpnessTracker(matrix=MATRICES[kind], tolerance=0.02, budget=100),
        "surefoot, residual 2 %, risk stated": SharpnessTracker(matrix=MATRICES[kind], stop="residual", budget=100),
    }
    ratios: dict[str, list[float]] = {name: [] for name in trackers}
    measured: dict[str, list[Tracked]] = {name: [] for name in trackers}
    errors = []
    pairs: list[float] = []
    peers: dict[str, list[float]] = {tool: [] for tool in (*tools, "two warm power steps of hessian-eigenthings")}
    vector = None
    for step in range(501):
        if step % 10 == 0:
            unit = case.unit(3)
            for name, tracker in trackers.items():
                spent, measurement = timed(
                    lambda t=tracker: t.measure(case.model, nn.CrossEntropyLoss(), case.inputs, case.labels)
                )
                ratios[name].append(spent / unit)
                measured[name].append(measurement)
            if vector is not None:

                def power(v: Tensor = vector) -> Tensor:
                    matrix = case.matrix(kind)
                    for _ in range(2):
                        v = matrix @ v
                        v = v / v.norm()
                    return v

                spent, vector = timed(power)
                pairs.append(spent / unit)
            else:
                vector = measurement.pairs[0].vector.clone()
            if step in (100, 450):  # before the edge and at it
                true = truth(case, kind)
                errors += [abs(series[-1].value - true) / true for series in measured.values()]
                for tool, (measure, kinds) in tools.items():
                    if kind in kinds:
                        peers[tool].append(cpu_seconds(lambda m=measure: m(case, kind)) / unit)
                peers["two warm power steps of hessian-eigenthings"].append(warm_pair(case, kind, vector) / unit)
            print(step, kind, *(f"{of[-1]:.1f}" for of in ratios.values()), f"{measurement.value:.2f}", flush=True)
        case.step()
    rows: list[tuple[Cell, ...]] = []
    for name, series in measured.items():
        numbers = f"{statistics.mean(of.pairs[0].num_matvecs for of in series):.1f}"
        rows.append((kind, name, f"{statistics.mean(ratios[name]):.1f}", numbers, len(series)))
    ours_pair = "two warm power steps on our products, proving nothing"
    rows.append((kind, ours_pair, f"{statistics.mean(pairs):.1f}", "2", len(pairs)))
    for tool, costs in peers.items():
        if costs:
            rows.append((kind, tool, f"{statistics.mean(costs):.1f}", "-", len(costs)))
    return rows, summarised(kind, *measured.values(), errors=errors)


def summarised(kind: str, proved: list[Tracked], quick: list[Tracked], *, errors: list[float]) -> str:
    values = [of.value for of in proved]
    return (
        f"{kind}: {sum(of.certified for of in proved)} of {len(proved)} values certified at 95 %. Stopped on the "
        f"residual, {sum(of.pairs[0].converged for of in quick)} of {len(quick)} reached it; the risk they state is "
        f"{statistics.median(of.pairs[0].delta for of in quick):.2f} in the median, and at most 5 % for "
        f"{sum(of.certified for of in quick)}. Largest error of {len(errors)} checked {max(errors):.2%}. "
        f"Sharpness from {values[0]:.1f} over {max(values):.1f} to {values[-1]:.1f}, 2/lr = {2 / LR:.0f}, "
        f"first above it at step {next((10 * k for k, v in enumerate(values) if v > 2 / LR), None)}."
    )


def warm_pair(case: Case, kind: str, vector: Tensor) -> float:
    import hessian_eigenthings as he

    def work() -> None:
        he.power_iteration_one(_eigenthings(case, kind), init=vector, max_iter=2)

    return cpu_seconds(work)


def memory(case: Case) -> float:
    """Vectors of P numbers held beyond the graph and what one product needs, at most, while one value is certified."""
    size = flat([p.detach() for p in case.model.parameters()]).numel()
    matrix = case.matrix("G")
    like = matrix.like
    with Storage(smallest=2 * size) as alone:
        matrix @ like
    with Storage(smallest=2 * size) as whole:
        eigenpairs(matrix.__matmul__, like, tolerance=0.01)
    return (whole.peak - alone.peak) / (4 * size) + 2  # the product's own image and its parts


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--part", choices=("mlp", "resnet", "all"), default="all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = {"mlp": mlp, "resnet": resnet}
    chosen = {name: build for name, build in cases.items() if arguments.part in (name, "all")}
    costs: list[tuple[Cell, ...]] = []
    scratch: list[tuple[Cell, ...]] = []
    followed: list[tuple[Cell, ...]] = []
    notes = []
    for name, build in chosen.items():
        case = build()
        for _ in range(10):
            case.step()
        case.model.eval()  # batch norm by the statistics of these steps
        costs += products(name, case)
        tools = {tool: entry for tool, entry in TOOLS.items() if name == "mlp" or entry[0] is not eigenthings_power}
        scratch += cold(name, case, tools)
        if name == "mlp":
            notes.append(
                f"Vectors held beyond the graph while a value is certified, at most: {memory(case):.1f} (bar 13)."
            )
            others = {tool: entry for tool, entry in TOOLS.items() if entry[0] is not ours}
            for kind in "GH":
                rows, summary = tracking(build(), kind, others)
                followed += rows
                notes.append(summary)
    made = provenance("make bench NAME=curvature", peers=[f"{peer} {version(peer)}" for peer in PEERS])
    about = (
        "G Gauss-Newton, H Hessian; mlp 3072-200-200-10 tanh, 5,000 CIFAR-10 images; resnet 20 layers, 1,000 images in "
        "batches of 250 for every tool, because one of them needs more than 20 GB otherwise. The GGN "
        "products of hessian-eigenthings are detached from their graphs, which fill the memory otherwise."
    )
    tables = [
        Table(
            "products",
            "Matrix and product, in gradients",
            ("model", "matrix", "what", "gradients", "n", "bar"),
            tuple(costs),
        ),
        Table(
            "cold",
            "The largest eigenvalue from scratch, after 10 GD steps",
            ("model", "matrix", "tool", "gradients", "products", "error"),
            tuple(scratch),
        ),
        Table(
            "warm",
            f"The largest eigenvalue every 10 of 500 GD steps at lr {LR:.4g}, mean per value",
            ("matrix", "tool", "gradients", "products", "n"),
            tuple(followed),
            notes=tuple(notes),
        ),
    ]
    *others, last = (table for table in tables if table.rows)
    write_tables(arguments.out, *others, replace(last, notes=(*last.notes, about, made)))


if __name__ == "__main__":
    main()
