"""Large memory of the native kernels, on huge pages where the system grants them.

Kernels stream through pools of hundreds of MB. On pages of 4 KB such a stream misses the TLB every
64 lines; on 2 MB pages, which Linux gives to those who ask, it does not.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray


def zeros(nbytes: int) -> NDArray[np.uint8]:
    """Zero bytes, aligned to 4 KB; the system commits them when they are first touched."""
    if nbytes == 0:
        return np.zeros(0, np.uint8)
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)
