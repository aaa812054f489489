"""The keys under which a run holds its scores on corrupted and out-of-distribution images."""

import re
from dataclasses import dataclass

_CORRUPTED = re.compile(r"(?:(?P<data>.+)-)?(?P<corruption>\w+)-(?P<severity>[1-5])/(?P<quantity>\w+)")


@dataclass(frozen=True)
class CorruptedKey:
    """What a key of the observer `shift` is about, where the images are corrupted."""

    corruption: str
    severity: int
    quantity: str
    data: str | None = None  # the out-of-distribution set whose images they are; None for the test images


def corrupted_key(key: str) -> CorruptedKey | None:
    """Read a key; None for one that is not about corrupted images.

    >>> corrupted_key("motion_blur-3/ece")
    CorruptedKey(corruption='motion_blur', severity=3, quantity='ece', data=None)
    >>> corrupted_key("cifar100-5k-motion_blur-3/auroc_ood").data, corrupted_key("svhn-2k/auroc_ood")
    ('cifar100-5k', None)
    """
    match = _CORRUPTED.fullmatch(key)
    if match is None:
        return None
    return CorruptedKey(match["corruption"], int(match["severity"]), match["quantity"], match["data"])


def corrupted_test_key(key: str) -> CorruptedKey | None:
    """Read a key that is about corrupted test images; None for any other."""
    parts = corrupted_key(key)
    return parts if parts is not None and parts.data is None else None
