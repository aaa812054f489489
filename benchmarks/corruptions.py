"""Corruptions against the package imagecorruptions, per image of 32x32; and what augmentation adds to a training step.

The package has ImageNet's constants only and takes one image at a time; ours takes the batch, with the same constants
and with CIFAR's. Its own functions with CIFAR's numbers are timed too, so that every row compares the same work. Turns
are taken in one process, in processor time, and the fastest of each is kept, because the machine may be shared.

Usage: python benchmarks/corruptions.py [--images 2000] [--rounds 5] [--out results/benchmarks/corruptions.md]
"""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from _record import benchmark_parser, provenance, write_tables

from surefoot.data import cifar10_5k
from surefoot.data.augment import Augment
from surefoot.data.corruptions import CORRUPTIONS, corrupted
from surefoot.data.corruptions.defocus_blur import disk
from surefoot.data.corruptions.motion_blur import smeared, taps
from surefoot.models import ResNet
from surefoot.table import Cell, Table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import imagecorruptions
    from imagecorruptions import corruptions as peer

NAMED = ("motion_blur", "defocus_blur", "impulse_noise")
SEVERITY = 3
BATCH = 128


def images(count: int) -> torch.Tensor:
    from surefoot.data._cifar10 import FILE, data_folder

    with np.load(data_folder() / FILE, allow_pickle=False) as archive:
        return torch.from_numpy(archive["x_test"][:count].transpose(0, 3, 1, 2).copy())


def peer_with(name: str, constants: Any) -> Callable[[Any], Any]:
    """The package's own functions with other numbers, put together as it does itself."""
    if name == "motion_blur":
        radius, sigma = constants
        return lambda image: np.clip(
            peer._motion_blur(image, radius=radius, sigma=sigma, angle=np.random.uniform(-45, 45)), 0, 255
        ).astype(np.uint8)
    if name == "defocus_blur":

        def blurred(image: Any) -> Any:
            kernel = peer.disk(*constants)
            planes = [peer.cv2.filter2D(image[..., k] / 255.0, -1, kernel) for k in range(3)]
            return np.uint8(np.clip(np.stack(planes, axis=-1), 0, 1) * 255)

        return blurred

    def noisy(image: Any) -> Any:
        return np.uint8(np.clip(peer.sk.util.random_noise(image / 255.0, mode="s&p", amount=constants), 0, 1) * 255)

    return noisy


def fastest(turns: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """Processor seconds per image of each, the least of `rounds` turns in rotation after one to warm up."""
    for turn in turns.values():
        turn()
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            start = time.process_time()
            count = turn()
            seconds[name].append((time.process_time() - start) / count)
    return {name: min(values) for name, values in seconds.items()}


def speed(pictures: torch.Tensor, rounds: int) -> list[tuple[Cell, ...]]:
    singles = list(pictures[:200].permute(0, 2, 3, 1).contiguous().numpy())
    rows: list[tuple[Cell, ...]] = []
    for name in NAMED:
        for size in ("cifar", "imagenet"):
            theirs = peer_with(name, CORRUPTIONS[name].constants(SEVERITY, size=size))
            if size == "imagenet":

                def theirs(image: Any, name: str = name) -> Any:
                    return imagecorruptions.corrupt(image, corruption_name=name, severity=SEVERITY)

            def ours(name: str = name, size: str = size) -> int:
                return len(corrupted(pictures, name, severity=SEVERITY, constants=size))

            def one_by_one(theirs: Callable[[Any], Any] = theirs) -> int:
                return len([theirs(image) for image in singles])

            seconds = fastest({"ours": ours, "theirs": one_by_one}, rounds)
            ratio = seconds["theirs"] / seconds["ours"]
            rows.append((name, size, 1e6 * seconds["ours"], 1e6 * seconds["theirs"], f"{ratio:.1f}", len(pictures)))
            print(*rows[-1], flush=True)
    return rows


def agreement(pictures: torch.Tensor) -> str:
    """How far the two blurs are from the package's on the same images, angles and constants."""
    worst: dict[str, float] = {}
    for severity in range(1, 6):
        radius, sigma = CORRUPTIONS["motion_blur"].cifar[severity - 1]
        angles = torch.linspace(-45, 45, len(pictures), dtype=torch.float64)
        blurred = smeared(pictures.double(), taps(radius, sigma), torch.deg2rad(angles))
        for picture, angle, ours in zip(pictures, angles.tolist(), blurred, strict=True):
            theirs = peer._motion_blur(picture.permute(1, 2, 0).numpy(), radius=radius, sigma=sigma, angle=angle)
            gap = float(np.abs(theirs - ours.permute(1, 2, 0).numpy()).max())
            worst["motion_blur"] = max(worst.get("motion_blur", 0.0), gap)
        for constants in (CORRUPTIONS["defocus_blur"].cifar, CORRUPTIONS["defocus_blur"].imagenet):
            ours_kernel, theirs_kernel = disk(*constants[severity - 1]).numpy(), peer.disk(*constants[severity - 1])
            edge = (len(theirs_kernel) - len(ours_kernel)) // 2
            gap = float(np.abs(theirs_kernel - np.pad(ours_kernel, edge)).max())
            worst["kernel"] = max(worst.get("kernel", 0.0), gap)
    return (
        f"Against the package on {len(pictures)} images, all severities: motion blur at the same angles differs by at "
        f"most {worst['motion_blur']:.1g} of 255; defocus kernels by at most {worst['kernel']:.1g}."
    )


def input_cost(rounds: int) -> tuple[Cell, ...]:
    data = cifar10_5k(num_train=BATCH, num_test=1)
    model = ResNet(depth=20, input_shape=data.input_shape, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    augment = Augment(cutout=8)

    def step() -> int:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data.train.inputs), data.train.labels).backward()
        optimizer.step()
        return 1

    seconds = fastest({"augment": lambda: len([augment(data.train.inputs, step=5)]), "step": step}, rounds)
    share = seconds["augment"] / seconds["step"]
    return ("crop, flip and cutout", 1e3 * seconds["augment"], 1e3 * seconds["step"], f"{100 * share:.2f} %", BATCH)


def main() -> None:
    parser = benchmark_parser(__file__)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    peer.cv2.setNumThreads(1)
    warnings.simplefilter("ignore")  # deprecations in imagecorruptions, one for every image
    pictures = images(arguments.images)
    made = provenance(
        f"python benchmarks/corruptions.py --images {arguments.images} --rounds {arguments.rounds}",
        peers=[f"imagecorruptions {version('imagecorruptions')}"],
    )
    speeds = Table(
        name="corruptions",
        title=f"Microseconds of one processor per image of 32x32, severity {SEVERITY}",
        columns=("corruption", "constants", "surefoot", "imagecorruptions", "ratio", "n"),
        rows=tuple(speed(pictures, arguments.rounds)),
        notes=(
            f"Least of {arguments.rounds} turns over n images (the package: over the first 200 of them), uint8 to "
            "uint8. The bar is a ratio of 5 with the constants for this size, cifar.",
            agreement(pictures[:50]),
        ),
    )
    inputs = Table(
        name="augmentation",
        title=f"Augmentation beside a step of ResNet-20, batches of {BATCH}, milliseconds of one processor",
        columns=("what", "augmentation", "step", "share", "batch"),
        rows=(input_cost(arguments.rounds),),
        notes=(f"Least of {arguments.rounds} turns. The bar is 10 %.", made),
    )
    write_tables(arguments.out, speeds, inputs)


if __name__ == "__main__":
    main()
