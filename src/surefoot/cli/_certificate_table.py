"""Certificates as people and as machines read them."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from surefoot.table import Table, finite_or_none

if TYPE_CHECKING:
    from surefoot.curvature import Eigenpair
    from surefoot.theory import Certificate, Tail

_SHORT = {"c_j": "C_J"}  # keys that are not words


def certificate_record(
    path: str, certificates: "Sequence[Certificate]", margins: "Tail", about: dict[str, Any], *, worst: int
) -> dict[str, Any]:
    """All of it for JSON; `failed` counts the statements that do not hold."""
    return {
        "path": path,
        "failed": num_failed(certificates),
        **about,
        "regime": "interpolating" if margins.interpolating else "overlap",
        "smallest_margin": margins.smallest,
        "log_moment": margins.log_moment,
        "share_of_moment": {f"worst {share:.0%}": part for share, part in margins.shares.items()},
        "worst": margins.worst[:worst].tolist(),
        "certificates": [_record(item) for item in certificates],
    }


def certificate_table(
    path: str, certificates: "Sequence[Certificate]", margins: "Tail", about: dict[str, Any], *, worst: int
) -> Table:
    """The same as a table; every reason why an assumption is not met has a number, which the verdict names."""
    regime = (
        "interpolating: every sample is right with a positive margin"
        if margins.interpolating
        else "overlap: not every sample is right with a positive margin"
    )
    shares = ", ".join(f"{share:.0%}: {part:.0%}" for share, part in margins.shares.items())
    named = ", ".join(map(str, margins.worst[:worst].tolist()))
    unmet = [reason for item in certificates if item.holds is None for reason in item.assumptions]
    numbers = {reason: number for number, reason in enumerate(dict.fromkeys(unmet), start=1)}
    rows = tuple(
        (
            item.name,
            _shown(item.measured),
            _shown(item.bound),
            _shown(item.slack) if math.isfinite(item.slack) else "-",
            _verdict(item, numbers),
        )
        for item in certificates
    )
    title = ", ".join(_titled(key, value) for key, value in about.items() if not isinstance(value, dict | list))
    return Table(
        "certificates",
        f"{path}: {title}",
        ("statement", "measured", "bound", "slack", "verdict"),
        rows,
        notes=(
            f"Regime: {regime}; smallest margin {margins.smallest:.3g}, log Q {margins.log_moment:.4g}.",
            f"Share of Q that comes from the worst samples: {shares}. The worst, by index: {named or '-'}.",
            *_model_notes(about),
            "Slack: bound over measured, 1 is tight.",
            *(f"({number}) Not met: {reason}." for reason, number in numbers.items()),
        ),
    )


def num_failed(certificates: "Sequence[Certificate]") -> int:
    """How many statements that are proved do not hold."""
    return sum(item.verdict == "fails" for item in certificates)


def sharpness_record(pair: "Eigenpair") -> dict[str, Any]:
    """The sharpness with what proves it: at least `value`, at most `bound` with probability 1 - `delta`."""
    return {"value": pair.value, "bound": finite_or_none(pair.bound), "delta": pair.delta, "certified": pair.converged}


def _model_notes(about: dict[str, Any]) -> Iterator[str]:
    if "sharpness" in about:
        value, bound, delta = (about["sharpness"][key] for key in ("value", "bound", "delta"))
        above = "not bounded from above" if bound is None else f"at most {bound:.4g} (probability {1 - delta:.0%})"
        yield f"Sharpness: at least {value:.4g} (certain), which is the value measured; {above}."
    moments = about.get("log_moments")
    if moments is not None:
        yield "Robust margins: " + ", ".join(f"log {name} {value:.4g}" for name, value in moments.items()) + "."
    gaps = ", ".join(f"{part['gap']:.3f}" for part in about["deciles"])
    yield f"|confidence - accuracy| by tenth of the {'' if moments is None else 'robust '}margin, lowest first: {gaps}."
    yield from about.get("notes", ())


def _record(item: "Certificate") -> dict[str, Any]:
    return {
        "name": item.name,
        "bound": finite_or_none(item.bound),
        "measured": finite_or_none(item.measured),
        "slack": finite_or_none(item.slack),
        "verdict": item.verdict,
        "holds": item.holds,
        "assumptions": list(item.assumptions),
    }


def _verdict(item: "Certificate", numbers: dict[str, int]) -> str:
    if item.holds is not None:
        return item.verdict
    return f"{item.verdict} ({', '.join(str(numbers[reason]) for reason in item.assumptions)})"


def _titled(key: str, value: Any) -> str:
    return f"{_SHORT.get(key, key.replace('_', ' '))} {value if not isinstance(value, float) else f'{value:.4g}'}"


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
