"""What every benchmark needs: medians with their spread, and what the machine can read."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of some rounds."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(statistics.median(values), min(values), max(values))

    def rounded(self) -> list[float]:
        """[median, low, high] to four digits, for JSON."""
        return [float(f"{value:.4g}") for value in (self.median, self.low, self.high)]

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.low:.4g}..{self.high:.4g})"


class ReadBandwidth:
    """Bytes per second that `threads` threads read from memory, out of reach of any cache.

    NumPy keeps arrays of 4 MB and more on huge pages, and its maximum waits for nothing but memory:
    it was as fast as loops in C over registers of 512 bits with and without prefetching.
    """

    def __init__(self, threads: int, mebibytes: int = 256) -> None:
        self._parts = [np.ones(mebibytes * 2**20 // 4, np.float32) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads)

    def measure(self) -> float:
        """One pass over all of it; the best of five, for anything else only disturbs."""
        best = 0.0
        for _ in range(5):
            begin = time.perf_counter()
            list(self._pool.map(np.max, self._parts))
            seconds = time.perf_counter() - begin
            best = max(best, sum(part.nbytes for part in self._parts) / seconds)
        return best
