"""The llama3 RoPE scaling, recovered from the tensor that GGUF keeps in its place.

GGUF stores `rope_freqs`: what each frequency is divided by. Hugging Face stores the parameters that
those follow from (modeling_rope_utils.py, `llama3`). With w the wavelength of a frequency, L the
original context, F the factor and s = (L / w - low) / (high - low), the divisor is:

    w > L / low: F      w < L / high: 1      between: 1 / ((1 - s) / F + s)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.core.errors import CheckpointError
from stoker.core.model import RopeConfig

LOW, HIGH = 1.0, 4.0
"""The bounds of every published checkpoint, and the defaults of the converter to GGUF."""

_TOLERANCE = 1e-4


def llama3_rope(
    theta: float, factors: NDArray[np.float32], head_dim: int, where: str
) -> RopeConfig:
    """factors: float32 [head_dim / 2]. CheckpointError if no llama3 scaling gives these factors."""
    if factors.shape == (head_dim // 2,) and np.isfinite(factors).all() and factors.min() >= 1:
        factor = float(factors.max())
        for original in _candidates(theta, factors, head_dim):
            made = llama3_factors(theta, factor, original, head_dim)
            if np.allclose(made, factors, rtol=_TOLERANCE):
                return RopeConfig(
                    theta=theta,
                    scaling="llama3",
                    factor=factor,
                    low_freq_factor=LOW,
                    high_freq_factor=HIGH,
                    original_max_position=original,
                )
    raise CheckpointError(f"{where}: the RoPE factors in rope_freqs are of an unknown scaling")


def llama3_factors(
    theta: float, factor: float, original: int, head_dim: int
) -> NDArray[np.float64]:
    """float64 [head_dim / 2] by the formula above."""
    turns = original / _wavelengths(theta, head_dim)
    smooth = np.clip((turns - LOW) / (HIGH - LOW), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / factor + smooth)


def _candidates(theta: float, factors: NDArray[np.float32], head_dim: int) -> list[int]:
    """Original contexts to try: what a frequency between the bounds implies, then round numbers."""
    factor = float(factors.max())
    between = (factors > 1) & (factors < factor)
    smooth = (1 / factors[between] - 1 / factor) / (1 - 1 / factor)
    implied = (LOW + smooth * (HIGH - LOW)) * _wavelengths(theta, head_dim)[between]
    return [round(float(x)) for x in implied] + [2**power for power in range(5, 21)]


def _wavelengths(theta: float, head_dim: int) -> NDArray[np.float64]:
    return 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
