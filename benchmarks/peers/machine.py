"""What was measured on: the CPU, who else was on it, and how fast its memory can be read."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader

READ_BYTES = 1 << 30
READ_REPEATS = 5


def facts() -> dict[str, Any]:
    """CPU name, logical CPUs and the load average of the last minute."""
    name = ""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    return {"cpu": name, "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def read_bandwidth(threads: int) -> float:
    """Bytes per second that `threads` threads read from memory at once; the best of a few passes.

    A maximum over bytes costs one vector instruction a load, so memory is what limits it.
    """
    part = np.zeros(READ_BYTES // threads, np.uint8)
    parts = [part] + [part.copy() for _ in range(threads - 1)]
    for array in parts:
        array.fill(1)
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(READ_REPEATS):
            start = time.perf_counter()
            list(pool.map(np.max, parts))
            best = max(best, READ_BYTES / (time.perf_counter() - start))
    return best


def bytes_per_token(file: Path) -> int:
    """Bytes of a GGUF file's weights that decoding a token reads: all, but a separate embedding."""
    tensors = {tensor.name: int(tensor.n_bytes) for tensor in GGUFReader(file).tensors}
    total = sum(tensors.values())
    return total - tensors["token_embd.weight"] if "output.weight" in tensors else total
