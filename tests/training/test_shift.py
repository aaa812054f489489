from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from references import slow
from references.corruptions import correlated
from surefoot.data.corruptions import corrupted
from surefoot.data.corruptions.defocus_blur import disk
from surefoot.data.out_of_distribution import OUT_OF_DISTRIBUTION, out_of_distribution_images
from surefoot.data.standardisation import Standardisation
from surefoot.posthoc import Temperature
from surefoot.predictions import Predictions
from surefoot.runs.build import build, check
from surefoot.runs.spec import RunSpec
from surefoot.training.loop import Training, train
from surefoot.training.observers import ShiftObserver
from surefoot.training.schedule import Schedule
from surefoot.training.snapshot import Snapshot

FEW = {"corruptions": ["defocus_blur", "impulse_noise"], "severities": [2, 5], "foreign": ["turned", "shuffled"]}
DATA = {"name": "digits", "num_train": 1700, "num_validation": 100, "images": True, "standardised": "channel"}


def spec(**changes: Any) -> RunSpec:
    tree = {
        "optimizer": {"name": "sgd", "lr": 0.1},
        "budget": 60,
        "batch_size": 50,
        "data": DATA,
        "model": {"name": "cnn", "widths": [4, 8]},
        "observers": {"margins": False, "curvature": False, "shift": FEW},
        **changes,
    }
    return RunSpec.from_dict(tree)


def go(training: Training, *, budget: int = 60, every: int = 1000) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    train(training, budget=budget, schedule=Schedule(every=every, per_decade=0), record=rows.append)
    return rows


@pytest.fixture(scope="module")
def trained() -> tuple[Training, list[dict[str, float]]]:
    training = build(spec())
    return training, go(training)


def pixels() -> tuple[np.ndarray, float, float]:
    """Images in [0, 1] to test on, float64, and the mean and deviation of those to train on."""
    images = load_digits().images[np.random.default_rng(0).permutation(1797)][:, None] / 16
    return images[1700:], images[:1600].mean(), images[:1600].std()


def test_scores_of_blurred_images_are_those_of_a_slow_reference(
    trained: tuple[Training, list[dict[str, float]]],
) -> None:
    training, rows = trained
    test, mean, std = pixels()
    exact = deepcopy(training.model).double().eval()
    labels = training.splits["test"].labels
    kernel = disk(0.4, 0.5)
    blurred = torch.stack([correlated(image, kernel) for image in torch.from_numpy(test)])

    def logits(images: Tensor) -> Tensor:
        with torch.no_grad():
            return exact((images - mean) / std)

    seen, clean = logits(blurred), logits(torch.from_numpy(test))
    row = rows[-1]
    pairs = slow.top_label(seen, labels)
    own = [score for score, _ in slow.top_label(clean, labels)]
    others = [score for score, _ in pairs]
    known = training.splits["validation"]
    with torch.no_grad():
        fitted = Temperature.fit(Predictions(exact(known.inputs.double()), known.labels))
    wanted = {
        "accuracy": sum(hit for _, hit in pairs) / len(pairs),
        "ece": slow.ece(seen, labels, 15),
        "ada_ece": slow.ada_ece(seen, labels, 15),
        "ece_temperature": slow.ece(fitted(seen), labels, 15),
        "auroc_ood": slow.auroc([*own, *others], [True] * len(own) + [False] * len(others)),
        "confidence": sum(others) / len(others),
    }
    for quantity, value in wanted.items():
        assert row[f"defocus_blur-2/{quantity}"] == pytest.approx(value, abs=2e-5), quantity
    turned = logits(torch.from_numpy(np.rot90(test, axes=(2, 3)).copy()))
    strange = [score for score, _ in slow.top_label(turned, labels)]
    area = slow.auroc([*own, *strange], [True] * len(own) + [False] * len(strange))
    assert row["turned/auroc_ood"] == pytest.approx(area, abs=2e-4)
    assert row["turned/confidence"] == pytest.approx(sum(strange) / len(strange), abs=1e-5)


def test_it_looks_at_the_end_and_writes_what_it_declares(trained: tuple[Training, list[dict[str, float]]]) -> None:
    (first, last), observer = trained[1], ShiftObserver()
    assert not any("blur" in key or "turned" in key for key in first)
    own = [f"{name}-{severity}" for name in FEW["corruptions"] for severity in FEW["severities"]]
    wanted = {f"{where}/{quantity}" for where in own for quantity in observer.quantities}
    wanted |= {f"{where}/{quantity}" for where in FEW["foreign"] for quantity in ("auroc_ood", "confidence")}
    assert {key for key in last if key.split("/")[0] not in ("train", "test", "validation")} - {
        "step",
        "gradients",
    } == wanted
    assert last["defocus_blur-5/accuracy"] < last["defocus_blur-2/accuracy"] < last["test/accuracy"]
    assert last["shuffled/auroc_ood"] > 0.6


def test_every_observation_sees_the_same_copies_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(images: Tensor, name: str, **options: Any) -> Tensor:
        made.append(name)
        return corrupted(images, name, **options)

    training = build(spec(observers={"curvature": False, "shift": {**FEW, "at": "every"}}))
    monkeypatch.setattr("surefoot.training.observers.shift.corrupted", counted)
    rows = go(training, budget=20, every=10)
    assert len(made) == 4
    assert all("impulse_noise-5/ece" in row for row in rows)
    again = build(spec(observers={"curvature": False, "shift": FEW}))
    assert {key: value for key, value in go(again, budget=20)[-1].items() if "-" in key} == {
        key: value for key, value in rows[-1].items() if "-" in key
    }
    other = build(spec(observers={"curvature": False, "shift": {**FEW, "seed": 1}}))
    last = go(other, budget=20)[-1]
    assert last["defocus_blur-5/ece"] == rows[-1]["defocus_blur-5/ece"]
    assert last["impulse_noise-5/ece"] != rows[-1]["impulse_noise-5/ece"]


@pytest.mark.parametrize(
    "ensemble", [{"name": "mc_dropout", "num_samples": 3}, {"name": "deep_ensemble", "num_members": 2}]
)
def test_ensembles_are_asked_as_a_whole_and_training_does_not_notice(ensemble: dict[str, Any]) -> None:
    watched = build(spec(ensemble=ensemble, observers={"curvature": False, "shift": {**FEW, "at": "every"}}))
    row = go(watched, budget=20, every=5)[-1]
    alone = build(spec(ensemble=ensemble, observers={"curvature": False}))
    go(alone, budget=20)
    for one, other in zip(watched.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(one, other)
    test = watched.splits["test"]
    assert test.scale is not None
    images = corrupted(test.scale.images(test.inputs), "impulse_noise", severity=5)
    probabilities = watched.model.predict(test.scale.inputs(images))
    assert row["impulse_noise-5/confidence"] == pytest.approx(float(probabilities.amax(dim=1).mean()), abs=1e-6)


def test_no_tensor_is_made_on_the_default_device(trained: tuple[Training, list[dict[str, float]]]) -> None:
    training, rows = trained
    with torch.device("meta"):
        row = training.observe(last=True)
    assert row == rows[-1]


def test_foreign_sets_are_spoiled_too_and_cut_to_the_number_of_own_images(
    trained: tuple[Training, list[dict[str, float]]],
) -> None:
    training, rows = trained
    snapshot = Snapshot(1, training.model, training.objective, training.splits, last=True)
    row = ShiftObserver(corruptions=("impulse_noise",), severities=(5,), foreign_corrupted=("turned",))(snapshot)
    assert set(row) - {f"impulse_noise-5/{q}" for q in ShiftObserver.quantities} == {
        "turned-impulse_noise-5/auroc_ood",
        "turned-impulse_noise-5/confidence",
    }
    assert row["impulse_noise-5/ece"] == rows[-1]["impulse_noise-5/ece"]


def test_foreign_files_are_found_read_and_named_where_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    own = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    for name in OUT_OF_DISTRIBUTION:
        if name not in ("turned", "shuffled"):
            with pytest.raises(FileNotFoundError, match=r"There is no .*(Run: |Set |Get it |Unpack )"):
                ShiftObserver(foreign=(name,))
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    for file in ("svhn_test_2k.npz", "mine.npz"):
        np.savez(tmp_path / file, x_test=pixels)
    wanted = torch.from_numpy(pixels[:3]).permute(0, 3, 1, 2)
    for name in ("svhn-2k", str(tmp_path / "mine.npz")):
        ShiftObserver(foreign=(name,))
        assert torch.equal(out_of_distribution_images(name, own), wanted)
        torch.testing.assert_close(out_of_distribution_images(name, own.float()), wanted / 255)
    with pytest.raises(ValueError, match="svhn-2k has images of 3x32x32, and the data of 1x8x8: name another"):
        out_of_distribution_images("svhn-2k", torch.zeros(3, 1, 8, 8))
    np.savez(tmp_path / "mine.npz", x_test=pixels[:, 0])
    with pytest.raises(ValueError, match=r"mine\.npz must hold bytes x_test \[N, H, W, C\], got uint8"):
        out_of_distribution_images(str(tmp_path / "mine.npz"), own)


def test_made_foreign_images_keep_the_values() -> None:
    own = torch.rand(4, 2, 8, 8)
    for name in ("turned", "shuffled"):
        found = out_of_distribution_images(name, own)
        assert not torch.equal(found, own)
        assert torch.equal(found.flatten(2).sort().values, own.flatten(2).sort().values)
    assert torch.equal(out_of_distribution_images("turned", out_of_distribution_images("turned", own)), own.flip(2, 3))
    with pytest.raises(ValueError, match="Only square images can be turned, got 8x9"):
        out_of_distribution_images("turned", torch.zeros(1, 1, 8, 9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corruptions": ("motion_blurr",)}, "Did you mean 'motion_blur'"),
        ({"severities": (0,)}, "`severities` must be 1, 2, 3, 4 or 5 each, got 0"),
        ({"severities": (6,)}, "`severities` must be 1, 2, 3, 4 or 5 each, got 6"),
        ({"corruptions": ()}, "`corruptions` and `severities` must name at least one each"),
        ({"foreign": ("svnh",)}, "Unknown foreign set 'svnh'"),
        ({"at": "start"}, "`at` must be end or every, got 'start'"),
        ({"num_bins": 0}, "`num_bins` must be at least 1, got 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ShiftObserver(**options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {**DATA, "images": False}, "model": {"name": "mlp"}}, r"needs images .*set `data\.images` to true"),
        ({"observers": {"shift": {"corruptions": ["zoom_blur"]}}}, "zoom_blur at severity 1 leaves images of 8x8 as"),
        ({"observers": {"shift": {"corruptions": ["saturate"]}}}, "saturate needs images of 3 channels, got 1"),
    ],
)
def test_data_on_which_it_makes_no_sense_is_refused_before_training(changes: dict[str, Any], message: str) -> None:
    asked = spec(**{"observers": {"shift": {}}, **changes})
    with pytest.raises(ValueError, match=message):
        build(asked)


def test_small_images_and_missing_validation_are_refused() -> None:
    training = build(spec())
    splits = dict(training.splits)
    with pytest.raises(ValueError, match="needs a validation split"):
        ShiftObserver().check({"test": splits["test"]})
    with pytest.raises(ValueError, match=r"observer shift needs a validation split: set `data\.num_validation`"):
        check(spec(data={"name": "digits", "images": True}))
    scale = Standardisation(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    small = type(splits["test"])(torch.zeros(5, 1, 7, 7), torch.zeros(5, dtype=torch.long), scale)
    with pytest.raises(ValueError, match="needs images of at least 8x8, got 7x7"):
        ShiftObserver().check({"validation": small, "test": small})
