"""The number formats that weights keep in memory, as NumPy arrays over the mapped file.

This is what a checkpoint hands to a kernel set, which packs it into the layout it computes on
(`Ops.pack`). N is the output dimension (rows), K the input dimension (columns). Rows
are independent of each other in every format: cutting, joining and reordering rows is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FloatFormat = Literal["f32", "f16", "bf16"]

GROUP = 32
"""Columns that share a scale in int4, and in int8 unless the weight says 16."""


@dataclass(frozen=True, slots=True)
class FloatWeight:
    """Plain numbers. data: [N, K] or [N]; float32, float16, or uint16 holding bf16 bits."""

    format: FloatFormat
    data: NDArray[np.generic]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def nbytes(self) -> int:
        return self.data.nbytes


@dataclass(frozen=True, slots=True)
class Int4Weight:
    """value = scale * q + minimum, or scale * (q - 8) without minimum; q in 0..15.

    q: uint8 [N, K/2]. Byte i of a group's 16 holds column i in its low and column i + 16 in its
    high nibble (the order of GGUF Q4_0). scale, minimum (may be None): one per 32 columns, [N,
    K/32], both float16 or both float32. Holds GGUF Q4_0 (no minimum: 4.5 bits a weight instead of
    5), Q4_1 and, with float32 scales, Q4_K exactly.
    """

    q: NDArray[np.uint8]
    scale: NDArray[np.floating]
    minimum: NDArray[np.floating] | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.q.shape[0], self.q.shape[1] * 2

    @property
    def nbytes(self) -> int:
        minimum = 0 if self.minimum is None else self.minimum.nbytes
        return self.q.nbytes + self.scale.nbytes + minimum


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """value = scale * q (+ minimum), q in -128..127, one scale per `group` columns (32 or 16).

    q: int8 [N, K]; scale and minimum (may be None): float16 or float32 [N, K/group].
    Holds GGUF Q8_0 and Q5_* exactly, and Q6_K with groups of 16 and float32 scales.
    """

    q: NDArray[np.int8]
    scale: NDArray[np.floating]
    minimum: NDArray[np.floating] | None
    group: Literal[16, 32]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.q.shape

    @property
    def nbytes(self) -> int:
        minimum = 0 if self.minimum is None else self.minimum.nbytes
        return self.q.nbytes + self.scale.nbytes + minimum


Weight = FloatWeight | Int4Weight | Int8Weight
