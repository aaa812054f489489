"""A study's plan, as it is printed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surefoot.cli._terminal import print_json, print_table, say, working
from surefoot.table import Cell, Table

if TYPE_CHECKING:
    from surefoot.studies.plan import Plan
    from surefoot.studies.study import Study

_SHOWN = 10  # names of runs left out; all of them with --dry-run


@contextmanager
def measuring() -> Iterator[Callable[[int, int], None]]:
    """A function that says on stderr that short runs tell the time, and on a terminal how many of them are done."""
    with working("Measuring") as show:

        def tell(done: int, of: int) -> None:
            if done == 0:
                say(f"Measuring a few steps of each of {of} kinds of runs to tell how long they take.")
            show(f"{done + 1} of {of}")

        yield tell


def show_plan(study: "Study", plan: "Plan", *, json: bool) -> None:
    """All runs of a study with what becomes of each, on stdout, and the sums on stderr (in JSON: with them)."""
    from surefoot.studies.claim import rules_table
    from surefoot.studies.study import describe_axes

    out = {trial.id for trial in plan.left_out}
    todo = {trial.id for trial in plan.trials}
    states = {
        spec.id: "to do" if spec.id in todo else "left out" if spec.id in out else "ended" for spec in study.specs
    }
    if json:
        runs = [
            {"id": spec.id, "run": spec.label, "state": states[spec.id], "seconds": plan.seconds.get(spec.id)}
            for spec in study.specs
        ]
        sums = {
            "study": study.name,
            "scale": study.scale,
            "axes": study.axes,
            "claims": {rule.family: rule.to_dict() for rule in study.rules},
            "num_runs": len(study.specs),
            "num_to_do": len(plan.trials),
            "num_left_out": len(plan.left_out),
            "hours": plan.wall_seconds / 3600,
            "core_hours": sum(plan.seconds[trial.id] for trial in plan.trials) / 3600,
            "num_workers": plan.num_workers,
            "num_kinds": plan.num_kinds,
            "calibration_seconds": plan.calibration_seconds,
            "notes": list(plan.notes),
        }
        print_json({**sums, "runs": runs})
        return
    rows: list[tuple[Cell, ...]] = [
        (spec.label, spec.model.name, spec.loss.name, states[spec.id], plan.seconds.get(spec.id))
        for spec in study.specs
    ]
    title = f"Study {study.name} at scale {study.scale}: {len(study.specs)} runs, {len(plan.trials)} to do"
    print_table(Table("plan", title, ("run", "model", "loss", "state", "seconds"), tuple(rows)))
    if study.rules:
        print_table(rules_table(study.rules))
    say(describe_axes(study.axes))
    say_plan(plan, shown=0)


def say_plan(plan: "Plan", *, shown: int = _SHOWN) -> None:
    """How long it will take, why we think so, and what was left out, on stderr."""
    from surefoot.studies.cost import GRADIENTS
    from surefoot.studies.plan import format_duration

    for note in plan.notes:
        say(note)
    if not plan.num_kinds:
        say("There is nothing to do.")
        return
    hours, took = plan.wall_seconds / 3600, format_duration(plan.calibration_seconds)
    at_a_time = "one run" if plan.num_workers == 1 else f"{plan.num_workers} runs"
    say(
        f"About {hours:.2g} hours ({format_duration(plan.wall_seconds)}), {at_a_time} at a time; estimated from "
        f"{GRADIENTS} gradients of one run of each of {plan.num_kinds} kinds, which took {took}."
    )
    if plan.left_out:
        names = ", ".join(trial.spec.label for trial in plan.left_out[:shown])
        more = f" and {len(plan.left_out) - shown} more" if len(plan.left_out) > shown else ""
        named = f": {names}{more}" if shown else ""
        say(f"{len(plan.left_out)} runs do not fit and are left out{named}. Without --budget they are done.")
