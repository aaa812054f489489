from surefoot.metrics import reliability
from surefoot.runs.build import build
from surefoot.runs.spec import RunSpec
from surefoot.training.observers import OBSERVERS
from surefoot.training.snapshot import Snapshot


def test_the_row_holds_the_diagram() -> None:
    training = build(
        RunSpec.from_dict(
            {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 1, "data": {"name": "digits", "num_train": 100}}
        )
    )
    snapshot = Snapshot(0, training.model, training.objective, training.splits)
    observer = OBSERVERS["reliability"](num_bins=10)
    row = observer(snapshot)
    assert {key.partition("/")[2] for key in row} <= set(observer.quantities)
    for split in training.splits:
        for k, each in enumerate(reliability(snapshot.predictions(split), num_bins=10), start=1):
            count, confidence, right = (
                row.get(f"{split}/bin_{k:02d}_{what}") for what in ("count", "confidence", "right")
            )
            assert count == each.count
            assert right == (each.count * each.accuracy if each.count else 0)
            assert confidence == (each.confidence if each.count else None)
