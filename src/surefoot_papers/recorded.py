"""Bring what recorded studies say of their criteria up to date with the studies' files.

`python -m surefoot_papers.recorded results` writes the [[claims]] of every study's file into the study.json of its
results. Runs, rows and everything else stay as they were recorded; `surefoot report` then makes the tables again.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.studies.outcome import study_record
from surefoot.studies.study import read_study


def refresh(folder: Path) -> None:
    """Write the criteria that the study's file has now into a study's record."""
    record = study_record(folder)
    record["claims"] = [asdict(criterion) for criterion in read_study(record["study"], scale=record["scale"]).claims]
    write_atomically(folder / "study.json", (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*/*/study.json")):
        refresh(path.parent)
