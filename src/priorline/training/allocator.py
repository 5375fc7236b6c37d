"""Freed memory stays with the process between the steps of a run."""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Parameters of glibc's mallopt, from malloc.h."""
_MOST = 2**31 - 1
_GROWTH_BYTES = 64 * 2**20


def keep_freed_memory() -> bool:
    """Ask the C library to reuse freed memory, not to give it back; return whether it understood.

    A step frees and takes gigabytes of activations. By default glibc returns large blocks to the system
    and gets them back page by page, zeroed: a twentieth of a step's CPU time (1.2 of 20 s for 27 M
    parameters, 0.1 of 3.4 s for 2.5 M, one core of an AMD EPYC). Other C libraries are left alone. The
    setting holds for the whole process and cannot be undone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _MOST), (_TOP_PAD, _GROWTH_BYTES))
    return sum(mallopt(*setting) for setting in settings) == len(settings)
