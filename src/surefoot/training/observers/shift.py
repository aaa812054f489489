"""What becomes of the model where the test images are not like those that it learnt from."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from surefoot.data import CORRUPTIONS, Split, corrupted
from surefoot.data.out_of_distribution import check_out_of_distribution, out_of_distribution_images
from surefoot.metrics import accuracy, ada_ece, auroc_ood, ece, mean_confidence
from surefoot.posthoc import Map, Temperature
from surefoot.predictions import Predictions
from surefoot.registry import look_up
from surefoot.training.observers.observer import Stateless, keyed
from surefoot.training.observers.posthoc import fit_of
from surefoot.training.snapshot import Snapshot

FEWEST_PIXELS = 8  # on the shorter side; kernels are made for 32
_TRIED = 32  # images on which a corruption must show


class ShiftObserver(Stateless):
    """Scores of the model on corrupted test images, and how well its confidence tells foreign images from its own.

    Under `CORRUPTION-SEVERITY/...`: accuracy, ECE, adaptive ECE, ECE after the temperature that is best by NLL on the
    clean validation split (TCE; not a number where there is none), the AUROC of clean against corrupted test images by
    the largest probability, and mean confidence. Under `FOREIGN/...` and `FOREIGN-CORRUPTION-SEVERITY/...` the last
    two, of the own clean test images against the others.

    Corruption is that of the stored images, before they are standardised. One forward pass of the test split for each
    corruption, severity and foreign set, so by default only `at` the end of training; where it is at every observation
    the copies are kept.
    """

    needs_validation = True
    quantities: tuple[str, ...] = ("accuracy", "ece", "ada_ece", "ece_temperature", "auroc_ood", "confidence")

    def __init__(
        self,
        *,
        corruptions: tuple[str, ...] = ("motion_blur", "defocus_blur", "impulse_noise"),
        severities: tuple[int, ...] = (1, 2, 3, 4, 5),
        foreign: tuple[str, ...] = (),
        foreign_corrupted: tuple[str, ...] = (),
        at: Literal["end", "every"] = "end",
        seed: int = 0,
        num_bins: int = 15,
    ) -> None:
        for name in corruptions:
            look_up("corruption", name, CORRUPTIONS)
        for severity in severities:
            if severity not in (1, 2, 3, 4, 5):
                raise ValueError(f"`severities` must be 1, 2, 3, 4 or 5 each, got {severity}.")
        if not (corruptions and severities) and (foreign_corrupted or not foreign):
            raise ValueError("`corruptions` and `severities` must name at least one each, got none.")
        if at not in ("end", "every"):
            raise ValueError(f"`at` must be end or every, got {at!r}.")
        if num_bins < 1:
            raise ValueError(f"`num_bins` must be at least 1, got {num_bins}.")
        for name in (*foreign, *foreign_corrupted):
            check_out_of_distribution(name)
        self._kinds = [(name, severity) for name in corruptions for severity in severities]
        self._foreign, self._foreign_corrupted = tuple(foreign), tuple(foreign_corrupted)
        self._at, self._seed, self.num_bins = at, seed, num_bins
        self._kept: dict[str, Tensor] = {}

    def check(self, splits: Mapping[str, Split]) -> None:
        """Raise ValueError unless these splits can be looked at: images, of a size at which corruptions show."""
        if "validation" not in splits:
            raise ValueError("The observer `shift` needs a validation split: set `data.num_validation`.")
        test = splits["test"]
        few = _images(Split(test.inputs[:_TRIED], test.labels[:_TRIED], test.scale))
        size, least = f"{few.shape[2]}x{few.shape[3]}", 1 if few.dtype == torch.uint8 else 1 / 255
        for name, severity in self._kinds:
            changed = corrupted(few, name, severity=severity, seed=self._seed)
            if float((changed.double() - few.double()).abs().max()) < least:
                raise ValueError(f"{name} at severity {severity} leaves images of {size} as they are: leave it out.")
        for name in (*self._foreign, *self._foreign_corrupted):
            out_of_distribution_images(name, few)

    def __call__(self, snapshot: Snapshot) -> dict[str, float]:
        if self._at == "end" and not snapshot.last:
            return {}
        test, clean = snapshot.splits["test"], snapshot.predictions("test")
        temperature = fit_of(Temperature, snapshot.predictions("validation"))
        own = _images(test)
        row: dict[str, float] = {}
        for where, images in self._copies(own):
            predictions = _predicted(snapshot, images, test.labels)
            values = (
                accuracy(predictions),
                ece(predictions, num_bins=self.num_bins),
                ada_ece(predictions, num_bins=self.num_bins),
                math.nan if temperature is None else self._after(temperature, predictions),
                auroc_ood(clean, foreign=predictions.confidence),
                mean_confidence(predictions),
            )
            row |= keyed(where, self.quantities, values)
        for where, images in self._others(own):
            predictions = _predicted(
                snapshot, images, test.labels.new_zeros(len(images))
            )  # labels of which nothing is asked
            apart = auroc_ood(clean, foreign=predictions.confidence)
            row |= keyed(where, self.quantities[-2:], (apart, mean_confidence(predictions)))
        return row

    def _after(self, temperature: Map, predictions: Predictions) -> Tensor:
        return ece(Predictions(temperature(predictions.exact), predictions.labels), num_bins=self.num_bins)

    def _others(self, own: Tensor) -> Iterator[tuple[str, Tensor]]:
        for name in self._foreign:
            yield name, self._cached(name, partial(out_of_distribution_images, name, own))
        for name in self._foreign_corrupted:
            yield from self._copies(out_of_distribution_images(name, own), prefix=f"{name}-")

    def _copies(self, images: Tensor, *, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        for name, severity in self._kinds:
            where = f"{prefix}{name}-{severity}"
            yield where, self._cached(where, partial(corrupted, images, name, severity=severity, seed=self._seed))

    def _cached(self, where: str, make: Callable[[], Tensor]) -> Tensor:
        """The images of that name, made once where they are asked for again."""
        if where in self._kept:
            return self._kept[where]
        with torch.device("cpu"):  # whatever the default is
            images = make()
        if self._at == "every":
            self._kept[where] = images
        return images


def _images(split: Split) -> Tensor:
    if split.scale is None or split.inputs.ndim != 4:
        raise ValueError(
            f"The observer `shift` needs images [N, C, H, W] as they were stored, got {list(split.inputs.shape)}; "
            "for digits set `data.images` to true."
        )
    if min(split.inputs.shape[2:]) < FEWEST_PIXELS:
        raise ValueError(
            f"The observer `shift` needs images of at least {FEWEST_PIXELS}x{FEWEST_PIXELS}, "
            f"got {split.inputs.shape[2]}x{split.inputs.shape[3]}."
        )
    return split.scale.images(split.inputs)


def _predicted(snapshot: Snapshot, images: Tensor, labels: Tensor) -> Predictions:
    """What the model says about such images: they are standardised as its own are."""
    scale = snapshot.splits["test"].scale
    assert scale is not None
    split = Split(scale.inputs(images).to(labels.device), labels)
    return Snapshot(snapshot.step, snapshot.model, snapshot.objective, {"shifted": split}).predictions("shifted")
