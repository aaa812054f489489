"""Make the tables of recorded studies again from their rows, by the studies' files and analyses as they are now.

`python -m surefoot_papers.recorded results` writes the rules and the analysis of every study's file into the study.json
of its results, and makes outcome.json and tables.md again. Runs and rows stay as they were recorded.
"""

import json
import sys
from pathlib import Path

from surefoot.files import write_atomically
from surefoot.report.study import write_tables
from surefoot.studies.folder import StudyFolder
from surefoot.studies.study import read_study
from surefoot.studies.study_outcome import study_outcome


def refresh(folder: Path) -> None:
    """Write the rules and the analysis that the study's file has now into a study's record."""
    record = StudyFolder(folder).record
    study = read_study(record["study"], scale=record["scale"])
    record.pop("outcome", None)  # what earlier records name the analysis by
    record["claims"] = {rule.family: rule.to_dict() for rule in study.rules}
    record["analysis"] = study.analysis
    write_atomically(folder / "study.json", (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("*/*/study.json")):
        refresh(path.parent)
        write_tables(path.parent, study_outcome(StudyFolder(path.parent)), archive=True)
        print(path.parent, flush=True)
