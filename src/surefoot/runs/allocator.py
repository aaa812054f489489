"""Memory that a process keeps for its next step."""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's numbers, in malloc.h
_ALL = 2**31 - 1
_AHEAD = 2**28


def keep_freed_memory() -> bool:
    """Have the C library keep what is freed for the next time, and say whether it will.

    A step frees its activations, and the next one asks for as much again. glibc gives large pieces back to the system
    at once, which then has to clear every page anew: of a small convolutional network's step on a CPU that is a
    quarter of the time. Results are the same to the bit. The process stays as large as it was at its largest, so this
    is for processes that do nothing but train; on other C libraries nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS have none; on Windows there is no such library
        return False
    wanted = {_MMAP_THRESHOLD: _ALL, _TRIM_THRESHOLD: _ALL, _TOP_PAD: _AHEAD}
    return all(mallopt(number, value) == 1 for number, value in wanted.items())
