"""`surefoot diagnose`: what is wrong with a model's confidence, and what to try next."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from surefoot.cli._terminal import print_json, say, working
from surefoot.cli.request import check_path, request

if TYPE_CHECKING:
    from surefoot.diagnosis.diagnosis import Diagnosis

_MARKS = {"fine": "ok", "look": "!!", "undecided": "??", "try": "->", "nothing": "ok"}


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
                found = [self._file()] if is_file else self._folder()
        if self.json:
            print_json([each.record() for each in found] if len(found) != 1 else found[0].record())
            return 0
        for each in found:
            print("\n".join(lines(each)))
            print()
        return 0

    def _file(self) -> "Diagnosis":
        from surefoot.cli.evaluate import check_enough
        from surefoot.diagnosis.diagnosis import diagnose
        from surefoot.diagnosis.measuring import file_facts
        from surefoot.io.predictions_file import read_predictions

        names = {"logits": self.logits, "probabilities": self.probs, "labels": self.labels}
        predictions = read_predictions(self.path, **names)
        check_enough(predictions, self.path, num_bins=15)
        validation = read_predictions(self.validation, **names) if self.validation else None
        return diagnose(file_facts(predictions, subject=str(self.path), validation=validation))

    def _folder(self) -> "list[Diagnosis]":
        from surefoot.diagnosis.diagnosis import diagnose
        from surefoot.diagnosis.facts import run_facts
        from surefoot.diagnosis.measuring import weights_facts
        from surefoot.runs.folder import RunFolder
        from surefoot.studies.outcome import study_runs

        single = (self.path / "run.json").exists()
        folders = [RunFolder(self.path)] if single else study_runs(self.path)
        found = []
        for folder in folders:
            if folder.status == "damaged" and not single:
                say(f"{folder.path} is damaged and left out.")
                continue
            rows, notes = folder.rows()
            reason = str(folder.record.get("reason", ""))
            facts = run_facts(folder.spec, rows, status=folder.status, reason=reason)
            if single:
                facts, note = weights_facts(facts, folder)
                notes += [note] if note else []
            for note in notes:
                say(note)
            found.append(diagnose(facts))
        return found


def lines(diagnosis: "Diagnosis") -> list[str]:
    """The diagnosis as lines of text."""
    text = [diagnosis.subject]
    text += [f"  {_MARKS[each.verdict]} {each.sentence}" for each in diagnosis.findings]
    if not diagnosis.findings:
        text.append("  ?? Nothing was observed that a diagnosis could go by.")
    if diagnosis.advice:
        text.append("Next")
        text += [f"  {_MARKS[each.kind]} {each.sentence} [{each.source}]" for each in diagnosis.advice]
    return text
