"""`surefoot diagnose`: what is wrong with a model's confidence, and what to try next."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from surefoot.cli._terminal import print_json, say, working
from surefoot.cli.request import check_path, request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surefoot.diagnosis.diagnosis import Diagnosis
    from surefoot.runs.stored import StoredRun


@dataclass
class DiagnoseCommand:
    """Say in plain sentences how sure a model is, how right, where it is off, and what to try next.

    Of a file of predictions, of a run's folder (with its last weights, if it has them), or of every run of a study.
    Each sentence has its numbers; advice says where its numbers come from, and what is not decided is called so.

    Example: surefoot diagnose test.npz
    """

    path: tyro.conf.Positional[Path]
    """A file of predictions, or the folder of a run or a study."""
    logits: str | None = None
    """Name of the logits in the file, as for `evaluate`."""
    probs: str | None = None
    """Name of the probabilities, if there are no logits."""
    labels: str | None = None
    """Name of the true classes."""
    validation: Path | None = None
    """A file of predictions to fit a temperature on; without it the temperature is cross-fitted on the file itself."""
    json: bool = False
    """Print all as JSON."""

    def __call__(self) -> int:
        with request():
            check_path("path", self.path)
            is_file = self.path.is_file()
            named = [name for name in ("logits", "probs", "labels", "validation") if getattr(self, name) is not None]
            if not is_file and named:
                raise ValueError(f"`--{named[0]}` goes with a file of predictions, and {self.path} is a folder.")
            with working("looking"):
                diagnoses = [self._file()] if is_file else self._folder()
        if self.json:
            print_json([each.record() for each in diagnoses] if len(diagnoses) != 1 else diagnoses[0].record())
            return 0
        for each in diagnoses:
            print(each)
            print()
        return 0

    def _file(self) -> "Diagnosis":
        from surefoot.cli.evaluate import check_enough
        from surefoot.diagnosis.diagnosis import diagnose
        from surefoot.diagnosis.measuring import prediction_facts
        from surefoot.io.predictions_file import read_predictions

        names = {"logits": self.logits, "probabilities": self.probs, "labels": self.labels}
        predictions = read_predictions(self.path, **names)
        check_enough(predictions, self.path, num_bins=15)
        validation = read_predictions(self.validation, **names) if self.validation else None
        return diagnose(prediction_facts(predictions, subject=str(self.path), validation=validation))

    def _folder(self) -> "list[Diagnosis]":
        from surefoot.diagnosis.diagnosis import diagnose
        from surefoot.diagnosis.facts import run_facts
        from surefoot.diagnosis.measuring import run_weights_facts
        from surefoot.runs.folder import RunFolder
        from surefoot.studies.folder import StudyFolder

        single = (self.path / "run.json").exists()
        runs: Sequence[StoredRun] = [RunFolder(self.path)] if single else StudyFolder(self.path).runs
        diagnoses = []
        for stored in runs:
            if stored.status == "damaged" and not single:
                say(f"{stored.place} is damaged and left out.")
                continue
            run, notes = stored.observed()
            facts = run_facts(run, status=stored.status, reason=stored.reason)
            if isinstance(stored, RunFolder) and single:
                facts, note = run_weights_facts(facts, stored)
                notes += [note] if note else []
            for note in notes:
                say(note)
            diagnoses.append(diagnose(facts))
        return diagnoses
