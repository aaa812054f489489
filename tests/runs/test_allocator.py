"""Memory kept between steps, seen in the pages that the system has to clear."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from surefoot.runs.allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(2**24)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = faults()
assert keep_freed_memory() and keep_freed_memory()
faults()  # until there is a piece of this size to use again
print(without, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_a_freed_piece_is_used_again_without_new_pages() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    without, kept = map(int, told.split())
    assert without > 1000
    assert kept < without / 10


def test_without_a_library_that_can_be_told_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    from surefoot.runs.allocator import keep_freed_memory

    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False
