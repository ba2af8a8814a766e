from __future__ import annotations

import math

import numpy as np
import pytest

from stoker.core.model import RopeConfig
from stoker.layers.rotary import cos_sin_table, frequencies


def test_plain_frequencies_fall_geometrically_from_one() -> None:
    got = frequencies(RopeConfig(theta=10000.0), 8)
    assert got.tolist() == pytest.approx([1.0, 0.1, 0.01, 0.001])


def test_linear_scaling_stretches_every_frequency() -> None:
    plain = frequencies(RopeConfig(theta=10000.0), 64)
    scaled = frequencies(RopeConfig(theta=10000.0, scaling="linear", factor=4.0), 64)
    assert np.allclose(scaled * 4.0, plain)


def test_llama3_scaling_keeps_fast_stretches_slow_and_blends_between() -> None:
    rope = RopeConfig(
        theta=500000.0,
        scaling="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position=8192,
    )
    plain, got = frequencies(RopeConfig(theta=500000.0), 128), frequencies(rope, 128)
    wavelength = 2 * math.pi / plain
    fast, slow = wavelength < 8192 / 4, wavelength > 8192
    assert np.array_equal(got[fast], plain[fast])
    assert np.allclose(got[slow], plain[slow] / 8)
    between = ~(fast | slow)
    assert between.any()
    smooth = (8192 / wavelength[between] - 1) / 3
    want = (1 - smooth) * plain[between] / 8 + smooth * plain[between]
    assert np.allclose(got[between], want)


def test_table_holds_cosines_then_sines() -> None:
    table = cos_sin_table(RopeConfig(theta=100.0), 4, 50)
    assert table.shape == (50, 4) and table.dtype == np.float32
    assert table[0].tolist() == [1.0, 1.0, 0.0, 0.0]
    want = [math.cos(7.0), math.cos(0.7), math.sin(7.0), math.sin(0.7)]
    assert table[7].tolist() == pytest.approx(want, abs=1e-6)
