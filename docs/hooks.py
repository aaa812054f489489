"""Pages that mkdocs makes while it builds: one per registered method, from its docstring, and one per public module."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fences import fenced
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from surefoot.ensembles import ENSEMBLES
from surefoot.losses import LOSSES, OBJECTIVES
from surefoot.metrics import METRICS
from surefoot.optim import OPTIMIZERS
from surefoot.posthoc import POSTHOC

BENCHMARKS = Path(__file__).parents[1] / "results" / "benchmarks"
GIVEN = {"params", "predictions", "model", "models", "options"}  # what a caller has anyway, or what is passed on
TORCHS = {
    "adamw": "m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr (m^ / (sqrt(v^) + eps) + weight_decay w), "
    "where m^ and v^ are m / (1 - b1^t) and v / (1 - b2^t) at step t. Loshchilov and Hutter 2019.",
    "sgd": "b <- momentum b + (1 - dampening) (g + weight_decay w), w <- w - lr b; with `nesterov` "
    "w <- w - lr (g + weight_decay w + momentum b). The first b is the first gradient.",
}


@dataclass(frozen=True)
class Kind:
    """A registry: where its pages go, what says more, how one of it is asked for, which benchmark measured it."""

    title: str
    table: Mapping[str, Any]
    more: str
    use: Callable[[str, Any], str]
    benchmark: str
    anywhere: bool = False  # a row of the benchmark may name the method anywhere in its first cell


def _imported(name: str, thing: Any) -> str:
    return f"```python\nfrom {thing.__module__.rpartition('.')[0]} import {thing.__name__}\n```"


def _in_spec(key: str) -> Callable[[str, Any], str]:
    return lambda name, thing: f'{_imported(name, thing)}\n\n```toml\n[{key}]\nname = "{name}"\n```'


def _calibrating(name: str, thing: Any) -> str:
    return f"{_imported(name, thing)}\n\n```sh\nsurefoot calibrate val.npz test.npz --method {name}\n```"


FUNCTIONS = {name: metric.implementation for name, metric in METRICS.items()}
KINDS = {
    "metrics": Kind("Metrics", FUNCTIONS, "calibration.md", _imported, "metrics.md"),
    "losses": Kind("Losses", LOSSES, "losses.md", _in_spec("loss"), "losses.md"),
    "objectives": Kind("Objectives", OBJECTIVES, "losses.md", _in_spec("loss"), "losses.md"),
    "optimizers": Kind("Optimizers", OPTIMIZERS, "optimizers.md", _in_spec("optimizer"), "optim.md", anywhere=True),
    "posthoc": Kind("Post-hoc maps", POSTHOC, "calibration.md", _calibrating, "metrics.md"),
    "ensembles": Kind("Ensembles", ENSEMBLES, "ensembles.md", _in_spec("ensemble"), "ensembles.md"),
}
OWN_PAGES = {"margin_aware": "margin_aware.md"}
MODULES = [
    *("predictions", "metrics", "posthoc", "curvature", "losses", "optim", "ensembles", "theory", "attack"),
    *("data", "models", "training.loop", "training.batches", "training.schedule", "training.observers"),
    *(
        "runs.spec",
        "runs.run",
        "runs.trajectory",
        "studies.study",
        "studies.analysis",
        "studies.claim",
        "studies.outcome",
        "studies.comparison",
        "report.reliability",
        "integrations",
    ),
]


def pages() -> dict[str, str]:
    """Every generated page, by its path in docs/."""
    made = {"methods/index.md": _overview()}
    for folder, kind in KINDS.items():
        made[f"methods/{folder}/index.md"] = _listing(kind)
        made |= {f"methods/{folder}/{name}.md": _method(kind, name) for name in kind.table}
    return made | {f"api/{module}.md": f"# {module}\n\n::: surefoot.{module}\n" for module in _modules()}


def _modules() -> list[str]:
    return [module for module in MODULES if find_spec(f"surefoot.{module}")]


def _overview() -> str:
    rows = [
        f"| [{kind.title}]({folder}/index.md) | {len(kind.table)} | [{kind.more}](../{kind.more}) |"
        for folder, kind in KINDS.items()
    ]
    return "\n".join(
        [
            "# Methods",
            "",
            "One page per name that a spec, the command line or a registry knows: definition and formula, options with "
            "their defaults, where the defaults come from, what it costs, what it cannot do. The pages are made from "
            "docstrings, signatures, the guides' tables and recorded benchmarks when the site is built.",
            "",
            "| | how many | read together |",
            "|---|---|---|",
            *rows,
        ]
    )


def _listing(kind: Kind) -> str:
    rows = [
        f"| [`{name}`]({name}.md) | {_escaped(_described(name, thing).splitlines()[0])} |"
        for name, thing in kind.table.items()
    ]
    return "\n".join([f"# {kind.title}", "", "| name | what it is |", "|---|---|", *rows])


def _method(kind: Kind, name: str) -> str:
    thing = kind.table[name]
    more = OWN_PAGES.get(name, kind.more)
    parts = [f"# {name}", fenced(_described(name, thing)), *_in_short(kind, name, thing), kind.use(name, thing)]
    parts += ["## Options and defaults", _options(thing), *_measured(kind, name, thing)]
    parts += [f"More, beside the others: [{more}](../../{more})."]
    return "\n\n".join(parts) + "\n"


def _described(name: str, thing: Any) -> str:
    if thing.__module__.startswith("torch."):
        return f"PyTorch's own `torch.optim.{thing.__name__}`, with its defaults. {TORCHS[name]} One gradient per step."
    return inspect.getdoc(thing) or ""


def _options(thing: Any) -> str:
    called = getattr(thing, "fit", thing)
    given = inspect.signature(called).parameters.values()
    options = [option for option in given if option.name not in GIVEN]
    if not options:
        return "None."
    of_fit = "Options of `fit`:\n\n" if called is not thing else ""
    rows = [f"| `{option.name}` | `{_type(option)}` | {_default(option)} |" for option in options]
    passed_on = any(option.kind is option.VAR_KEYWORD for option in given)
    others = "\n\nOther options are those of `SAM` and of the base optimizer." if passed_on else ""
    return of_fit + "\n".join(["| option | type | default |", "|---|---|---|", *rows]) + others


def _type(option: inspect.Parameter) -> str:
    name = inspect.formatannotation(option.annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", name)


def _default(option: inspect.Parameter) -> str:
    if option.default is option.empty:
        return "must be given"
    value = option.default
    return f"`{value.__name__ if isinstance(value, type) else repr(value)}`"


def _in_short(kind: Kind, name: str, thing: Any) -> list[str]:
    """The method's row in a table of its guide, where the guide has one."""
    known = {f"`{name}`", f"`{thing.__name__}`"}
    return [
        "\n".join([*head, *(row.replace("](", "](../../") for row in kept)])
        for _, head, rows in _tables((Path(__file__).parent / kind.more).read_text())
        if (kept := [row for row in rows if known & set(re.findall("`[^`]+`", row.split("|")[1]))])
    ]


def _measured(kind: Kind, name: str, thing: Any) -> list[str]:
    """The rows of the recorded benchmark that are about this method, under their heads."""
    found = [
        f"{title}:\n\n" + "\n".join([*head, *kept])
        for title, head, rows in _tables((BENCHMARKS / kind.benchmark).read_text())
        if (kept := [row for row in rows if _is_about(row, name, thing, anywhere=kind.anywhere)])
    ]
    source = f"From `results/benchmarks/{kind.benchmark}`, which says how it was measured."
    return ["## Measured", *found, source] if found else []


def _tables(text: str) -> list[tuple[str, list[str], list[str]]]:
    """Title (the line before), head and rows of each table."""
    found = re.findall(r"^(.*)\n\n((?:\|.*\n)+)", text + "\n", flags=re.MULTILINE)
    return [(title.strip("*"), lines.splitlines()[:2], lines.splitlines()[2:]) for title, lines in found]


def _is_about(row: str, name: str, thing: Any, *, anywhere: bool) -> bool:
    cell = row.split("|")[1].strip()
    if anywhere:
        return re.search(rf"\b{thing.__name__}\b", cell) is not None
    plain = re.sub(r"[^a-z0-9,]", "", cell.lower())
    return re.match(rf"{name.replace('_', '')}(of\d|,|$)", plain) is not None


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the generated pages to the navigation."""
    methods: list[Any] = ["methods/index.md"]
    for folder, kind in KINDS.items():
        listed = [f"methods/{folder}/index.md", *(f"methods/{folder}/{name}.md" for name in kind.table)]
        methods.append({kind.title: listed})
    config.nav = [*(config.nav or []), {"Methods": methods}, {"API": [f"api/{module}.md" for module in _modules()]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
