"""The table of rotary position embedding (Su et al. 2021) and its scalings."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stoker.core.model import RopeConfig

_BLOCK = 4096
"""Positions computed at once."""


def cos_sin_table(rope: RopeConfig, head_dim: int, max_positions: int) -> NDArray[np.float32]:
    """float32 [max_positions, head_dim]: cosines in the first half of a row, sines in the second.

    Frequencies and angles are rounded to float32 because models are trained with such angles. The
    functions themselves are float64, where every machine rounds them to the same float32.
    """
    table = np.empty((max_positions, head_dim), np.float32)
    radians = frequencies(rope, head_dim).astype(np.float32)
    # In blocks, because the float64 in between takes several times the room of the table.
    for start in range(0, max_positions, _BLOCK):
        rows = table[start : start + _BLOCK]
        positions = np.arange(start, start + len(rows), dtype=np.float32)
        angles = (positions[:, None] * radians).astype(np.float64)
        rows[:, : head_dim // 2] = np.cos(angles)
        rows[:, head_dim // 2 :] = np.sin(angles)
    return table


def frequencies(rope: RopeConfig, head_dim: int) -> NDArray[np.float64]:
    """Radians per position of each channel pair: float64 [head_dim / 2]."""
    plain = rope.theta ** -(np.arange(0, head_dim, 2) / head_dim)
    if rope.scaling == "linear":
        return plain / rope.factor
    if rope.scaling == "llama3":
        return _llama3(plain, rope)
    return plain


def _llama3(plain: NDArray[np.float64], rope: RopeConfig) -> NDArray[np.float64]:
    """Llama 3.1: slow pairs are stretched, fast ones kept, those between blended.

    turns within the original context:   low_freq_factor      high_freq_factor
    ─────────── divided by `factor` ────────────┼──── blended ────┼──── kept ────
    """
    turns = rope.original_max_position * plain / (2 * math.pi)
    keep = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    keep = keep.clip(0.0, 1.0)
    return keep * plain + (1.0 - keep) * plain / rope.factor
