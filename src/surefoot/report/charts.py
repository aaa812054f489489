"""The interactive figures, as Vega-Lite specifications; page.js fills in the data and links them."""

from typing import Any

from surefoot.report.plots import OPTIMIZER_COLOURS, OTHER_COLOUR, OVER, UNDER

Spec = dict[str, Any]

HEIGHT = 190
QUANTITIES = {
    "loss": "loss (nats)",
    "accuracy": "accuracy",
    "ece": "ECE",
    "margin_mean": "mean margin (logits)",
    "ggn_sharpness": "GN sharpness",
}
FAN = ("margin_min", "margin_q01", "margin_q05", "margin_q25", "margin_q50", "margin_q75")
BOUNDS = {
    "ece": ("certified_ece", "bound_ece", "bound_ece_ours"),
    "sharpness": ("certified_sharpness", "bound_sharpness", "bound_sharpness_ours"),
}
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])  # of the learning rates of one optimizer, smallest first
_GREY = "#8a8a8a"
_INK, _OWN = {"expr": "ink"}, {"expr": "colour"}  # the page's ink, light or dark; the picked run's colour


def course(key: str, *, optimizers: list[str]) -> Spec:
    """A quantity over the steps of all runs, the picked run thick, with its step marked."""
    split, _, name = key.partition("/")
    y = {"field": "y", "type": "quantitative", "title": f"{split} {QUANTITIES[name]}", "scale": {"zero": False}}
    x = _x("step", "step")
    layers: list[Spec] = [
        {
            "data": {"name": "all"},
            "transform": [_SHOWN],
            "mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.7},
            "encoding": {"x": x, "y": y, "color": _colour(optimizers), "detail": _DETAIL, "strokeDash": _DASH},
        },
        *_picked(x, y),
        _RULE,
    ]
    if name == "ggn_sharpness":
        layers.append(
            {
                "data": {"name": "edges"},
                "transform": [_SHOWN],
                "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1},
                "encoding": {
                    "y": {"field": "edge", "type": "quantitative"},
                    "color": _colour(optimizers),
                    "opacity": {"condition": {"test": "datum.edge === edge", "value": 1}, "value": 0.35},
                },
            }
        )
    return _view(layers)


def phase(split: str, *, optimizers: list[str]) -> Spec:
    """ECE against sharpness along every run: dot first, cross last."""
    x = {**_x("x", f"{split} GN sharpness"), "scale": {"zero": False}}
    y = {"field": "y", "type": "quantitative", "title": f"{split} ECE", "scale": {"zero": False}}
    order = {"field": "step", "type": "quantitative"}
    shared = {"x": x, "y": y, "color": _colour(optimizers)}
    ends = [
        {
            "data": {"name": "all"},
            "transform": [_SHOWN, {"filter": f"datum.end === '{which}'"}],
            "mark": {"type": "point", "shape": shape, "size": 40, "filled": shape == "circle"},
            "encoding": shared,
        }
        for which, shape in (("first", "circle"), ("last", "cross"))
    ]
    line = {
        "data": {"name": "all"},
        "transform": [_SHOWN],
        "mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.7},
        "encoding": {**shared, "detail": _DETAIL, "order": order, "strokeDash": _DASH},
    }
    return _view([line, *ends, *_picked(x, y, order=order)])


def fan(split: str) -> Spec:
    """Quantiles of the margin over the steps of the picked run."""
    x, title = _x("step", "step"), f"{split} margin (logits)"

    def band(low: str, high: str, opacity: float) -> Spec:
        return {
            "mark": {"type": "area", "opacity": opacity, "color": UNDER},
            "encoding": {
                "x": x,
                "y": {"field": low, "type": "quantitative", "title": title},
                "y2": {"field": high},
            },
        }

    def line(field: str, dash: list[int]) -> Spec:
        return {
            "mark": {"type": "line", "strokeWidth": 1.5, "color": UNDER, "strokeDash": dash},
            "encoding": {"x": x, "y": {"field": field, "type": "quantitative", "title": title}},
        }

    layers = [
        band("margin_q01", "margin_q75", 0.15),
        band("margin_q05", "margin_q75", 0.2),
        band("margin_q25", "margin_q75", 0.3),
        line("margin_q50", [1, 0]),
        line("margin_min", [2, 2]),
        {"mark": {"type": "rule", "color": _GREY}, "encoding": {"y": {"datum": 0}}},
    ]
    return _view([{"data": {"name": "picked"}, "layer": layers}, _RULE])


def bound(what: str, split: str) -> Spec:
    """Bounds and what they bound over the steps of the picked run, on a log scale."""
    title = "ECE" if what == "ece" else "GN sharpness"
    measured, theorem, ours = BOUNDS[what]
    names = {measured: "measured", theorem: "Theorem 4.1", ours: "first step of its proof (ours)"}
    folded = {
        "data": {"name": "picked"},
        "transform": [
            {"fold": list(names), "as": ["which", "y"]},
            {"filter": "isValid(datum.y) && datum.y > 0"},
            {"calculate": f"{_table(names)}[datum.which]", "as": "named"},
        ],
        "mark": {"type": "line", "strokeWidth": 1.5},
        "encoding": {
            "x": _x("step", "step"),
            "y": {
                "field": "y",
                "type": "quantitative",
                "title": f"{split} {title}",
                "scale": {"type": "log"},
                "axis": {"format": "~g"},
            },
            "color": {
                "field": "named",
                "type": "nominal",
                "title": None,
                "scale": {"domain": list(names.values()), "range": [UNDER, OVER, "#009E73"]},
                "legend": {"orient": "bottom", "columns": 1},
            },
        },
    }
    return _view([folded, _RULE])


def reliability() -> Spec:
    """Accuracy with its interval against confidence, bin by bin."""
    x = {
        "field": "left",
        "type": "quantitative",
        "title": "confidence",
        "scale": {"domain": [0, 1], "nice": False},
    }
    y = {"type": "quantitative", "title": "accuracy", "scale": {"domain": [0, 1]}}
    middle = {**x, "field": "confidence"}
    sides = {"domain": ["overconfident", "underconfident"], "range": [OVER, UNDER]}
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "color": _GREY, "opacity": 0.45},
            "encoding": {"x": x, "x2": {"field": "right"}, "y": {**y, "field": "accuracy"}, "y2": {"field": "zero"}},
        },
        {
            "mark": {"type": "rect", "opacity": 0.4},
            "encoding": {
                "x": x,
                "x2": {"field": "right"},
                "y": {**y, "field": "accuracy"},
                "y2": {"field": "confidence"},
                "color": {
                    "field": "side",
                    "type": "nominal",
                    "title": None,
                    "scale": sides,
                    "legend": {"orient": "bottom"},
                },
            },
        },
        {
            "data": {"values": [{"a": 0}, {"a": 1}]},
            "mark": {"type": "line", "color": _GREY, "strokeDash": [4, 3], "strokeWidth": 1},
            "encoding": {"x": {**x, "field": "a"}, "y": {**y, "field": "a"}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": _INK},
            "encoding": {"x": middle, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1, "color": _INK},
            "encoding": {
                "x": middle,
                "y": {**y, "field": "accuracy"},
                "tooltip": [
                    {"field": "confidence", "format": ".3f", "type": "quantitative"},
                    {"field": "accuracy", "format": ".3f", "type": "quantitative"},
                    {"field": "low", "format": ".3f", "type": "quantitative"},
                    {"field": "high", "format": ".3f", "type": "quantitative"},
                    {"field": "count", "type": "quantitative", "title": "samples"},
                ],
            },
        },
    ]
    return _view(layers, data={"name": "bins"}, height=260)


def histogram() -> Spec:
    """The share of the samples in each bin of the confidence."""
    return _view(
        [
            {
                "mark": {"type": "rect", "color": _GREY},
                "encoding": {
                    "x": {
                        "field": "left",
                        "type": "quantitative",
                        "title": "confidence",
                        "scale": {"domain": [0, 1], "nice": False},
                    },
                    "x2": {"field": "right"},
                    "y": {"field": "share", "type": "quantitative", "title": "share of samples"},
                    "y2": {"field": "zero"},
                    "tooltip": [
                        {"field": "share", "format": ".1%", "type": "quantitative"},
                        {"field": "count", "type": "quantitative", "title": "samples"},
                    ],
                },
            }
        ],
        data={"name": "bins"},
        height=110,
    )


def _view(layers: list[Spec], *, data: Spec | None = None, height: int = HEIGHT) -> Spec:
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": data or {"name": "picked"},
        "params": [
            {"name": "shown", "value": []},
            {"name": "step", "value": -1},
            {"name": "edge", "value": -1},
            {"name": "ink", "value": "#1b1b1b"},
            {"name": "colour", "value": _GREY},
        ],
        "layer": layers,
    }


_SHOWN: Spec = {"filter": "indexof(shown, datum.optimizer) >= 0"}
_DETAIL: Spec = {"field": "run", "type": "nominal"}
_DASH: Spec = {
    "field": "dash",
    "type": "nominal",
    "legend": None,
    "scale": {"domain": list(range(len(DASHES))), "range": list(DASHES)},
}
_RULE: Spec = {
    "data": {"name": "picked"},
    "transform": [{"filter": "datum.step === step"}],
    "mark": {"type": "rule", "strokeWidth": 1, "color": _GREY},
    "encoding": {"x": {"field": "step", "type": "quantitative"}},
}


def _x(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "title": title}


def _colour(optimizers: list[str]) -> Spec:
    colours = [OPTIMIZER_COLOURS.get(name, OTHER_COLOUR) for name in optimizers]
    scale = {"domain": optimizers, "range": colours}
    return {"field": "optimizer", "type": "nominal", "legend": None, "scale": scale}


def _picked(x: Spec, y: Spec, *, order: Spec | None = None) -> list[Spec]:
    line = {"x": x, "y": y, **({"order": order} if order else {})}
    return [
        {"data": {"name": "picked"}, "mark": {"type": "line", "strokeWidth": 3, "color": _OWN}, "encoding": line},
        {
            "data": {"name": "picked"},
            "transform": [{"filter": "datum.step === step"}],
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": _INK},
            "encoding": {"x": x, "y": y},
        },
    ]


def _table(names: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: '{name}'" for key, name in names.items()) + "}"
