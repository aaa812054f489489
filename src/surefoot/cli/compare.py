"""`surefoot compare`: two methods of a study, paired by seed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from surefoot.cli._terminal import print_json, print_table
from surefoot.cli.request import check_path, request
from surefoot.table import Cell, Table


@dataclass
class CompareCommand:
    """Say which of two methods ends better in a study: differences paired by seed, intervals, a verdict.

    Example: surefoot compare results/methods/digits "sam rho=0.05" sgd
    """

    study: tyro.conf.Positional[Path]
    """A study's folder."""
    a: tyro.conf.Positional[str]
    """A method, by the name that the study's tables show; its options may be left out where that is plain."""
    b: tyro.conf.Positional[str]
    """The method to compare it with."""
    quantities: Annotated[
        list[str], tyro.conf.arg(name="quantity", metavar="SPLIT/NAME"), tyro.conf.UseAppendAction
    ] = field(default_factory=list)
    """A measured quantity, as in train/ece; may be given several times. The scores of the test set if not given."""
    json: bool = False
    """Print the pairs as JSON."""

    def __call__(self) -> int:
        from surefoot.studies.compare import compare, method_named
        from surefoot.studies.folder import StudyFolder

        with request():
            check_path("study", self.study)
            folder = StudyFolder(self.study)
            record, runs = folder.record, folder.trajectories
            pairs = compare(runs, self.a, self.b, quantities=self.quantities)
            first, second = (method_named(runs, name) for name in (self.a, self.b))
        if self.json:
            about = {"study": record["study"], "scale": record["scale"], "a": first, "b": second}
            print_json({**about, "level": 0.95, "pairs": [pair.to_dict() for pair in pairs]})
            return 0
        rows: list[tuple[Cell, ...]] = []
        for pair in pairs:
            interval = "-" if pair.interval is None else f"[{pair.interval[0]:+.3g}, {pair.interval[1]:+.3g}]"
            off = f"{pair.difference:+.3g}"
            rows.append((pair.quantity, pair.first, pair.second, off, interval, len(pair.seeds), pair.verdict))
        counts = pairs[0].runs_per_seed
        lacking = len(record["runs"]) - len(runs)
        title = f"{first} against {second}, study {record['study']} at scale {record['scale']}, after the last step"
        columns = ("quantity", first, second, "difference", "95 % interval", "seeds", "verdict")
        notes = (
            "Differences are paired by seed; Student's interval of their mean, each quantity by itself.",
            f"Runs per seed (learning rates, networks), which count with their mean: {first} {counts[0]}, "
            f"{second} {counts[1]}.",
            *(
                [f"{lacking} of the study's {len(record['runs'])} runs are not done and do not count."]
                if lacking
                else ()
            ),
        )
        print_table(Table("compare", title, columns, tuple(rows), notes))
        return 0
