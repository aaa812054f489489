"""The scales that need more than this machine: everything is built and steps, on a few random images."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.models import MODELS
from surefoot.runs._build_optimizer import gradients_per_step
from surefoot.runs.build import build, check
from surefoot.runs.spec import Part, RunSpec
from surefoot.studies.analysis import load_analysis
from surefoot.studies.study import read_study

STUDIES = ["methods", "sam-variants", "rho-gamma", "combinations", "flatness"]
COUNTS = {
    ("cifar10", "resnet", 20): 269_722,
    ("cifar100", "resnet", 20): 275_572,
    ("cifar10", "resnet", 56): 853_018,
    ("cifar100", "resnet", 56): 858_868,
    ("cifar10", "wide_resnet", 28): 36_479_194,
    ("cifar100", "wide_resnet", 28): 36_536_884,
    ("cifar10", "pyramidnet", 110): 28_485_477,
    ("cifar100", "pyramidnet", 110): 28_511_307,
    ("tiny-imagenet", "resnet18", None): 11_279_112,
}
SHAPES = {"cifar10": ((3, 32, 32), 10), "cifar100": ((3, 32, 32), 100), "tiny-imagenet": ((3, 64, 64), 200)}
HELD = 6


@pytest.fixture
def few_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFAR-10 and CIFAR-100 as they are stored, with 20 random training images and 10 to test on."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (30, 32, 32, 3), np.uint8)
    labels = np.arange(30) % 10
    np.savez(tmp_path / "cifar10.npz", x_train=pixels[:20], y_train=labels[:20], x_test=pixels[20:], y_test=labels[20:])
    (tmp_path / "cifar-100-binary").mkdir()
    for name, rows in (("train", slice(0, 20)), ("test", slice(20, 30))):
        records = [bytes([0, 3 * k]) + image.tobytes() for k, image in enumerate(pixels[rows])]
        (tmp_path / "cifar-100-binary" / f"{name}.bin").write_bytes(b"".join(records))
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))


def network(spec: RunSpec) -> tuple[str, str, int | None]:
    return spec.data.name, spec.model.name, spec.model.options.get("depth")


def stand_in(spec: RunSpec, model: Part) -> RunSpec:
    """The same run on a network of the scale that is small, with fewer images held out than there are."""
    data = Part(spec.data.name, {**spec.data.options, "num_validation": HELD})
    return replace(spec, data=data, model=model, device="cpu")


def by_method(specs: Iterable[RunSpec]) -> dict[tuple[str, ...], RunSpec]:
    found: dict[tuple[str, ...], RunSpec] = {}
    for spec in specs:
        found.setdefault((spec.optimizer.name, spec.loss.name, spec.ensemble.name), spec)
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_every_spec_loads_and_checks(name: str) -> None:
    study = read_study(name, scale="paper")
    assert {spec.seed for spec in study.specs} == {0, 1, 2}
    for spec in study.specs:
        check(spec)
        load_analysis(study.analysis).check(spec)
        assert network(spec) in COUNTS
        assert spec.batch_size == 128
        steps_per_epoch = 704 if spec.data.name == "tiny-imagenet" else 352
        passes = spec.budget / gradients_per_step(spec) / steps_per_epoch
        assert passes == (250 if spec.rate.name == "steps" else 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_every_method_takes_two_steps(name: str, few_images: None) -> None:
    study = read_study(name, scale="paper")
    smallest = min((s for s in study.specs if s.model.name == "resnet"), key=lambda s: s.model.options["depth"]).model
    specs = [spec for spec in study.specs if spec.data.name != "tiny-imagenet"]
    for number, (method, spec) in enumerate(by_method(specs).items()):
        training = build(stand_in(spec, smallest))
        before = torch.cat([p.detach().flatten().clone() for p in training.model.parameters()])
        training.advance(spent=0.5)
        training.advance(spent=0.5)
        after = torch.cat([p.detach().flatten() for p in training.model.parameters()])
        assert training.step == 2, method
        assert after.isfinite().all(), method
        assert not torch.equal(before, after), method
        assert len(training.splits["validation"].labels) == HELD
        if number == 0:
            row = training.observe()
            wanted = {"test/ece", "test/ece_temperature", "test/ada_ece", "test/classwise_ece", "test/auroc_correct"}
            assert wanted | ({"train/hessian_sharpness"} if name == "flatness" else set()) <= row.keys()


@pytest.mark.parametrize("place", COUNTS, ids=lambda place: "-".join(map(str, place)))
def test_networks_have_the_known_number_of_parameters(place: tuple[str, str, int | None]) -> None:
    specs = [spec for name in STUDIES for spec in read_study(name, scale="paper").specs]
    chosen = next(spec for spec in specs if network(spec) == place)
    shape, num_classes = SHAPES[place[0]]
    with torch.device("meta"):
        model = MODELS[chosen.model.name](input_shape=shape, num_classes=num_classes, **chosen.model.options)
    assert sum(p.numel() for p in model.parameters()) == COUNTS[place]
