"""The block layouts of GGUF's quantised types, taken apart into integers, scales and minimums.

Layouts are those of ggml-common.h in ggml, as structured dtypes; a tensor is an [N, blocks] array
of one. Knows bits only: which number format keeps the parts is decided in `gguf_quants`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gguf.constants import GGMLQuantizationType as Kind
from numpy.typing import NDArray

Blocks = NDArray[np.void]
Bytes = NDArray[np.uint8]
Parts = tuple[NDArray[np.generic], ...]
"""q [N, ...], scale [N, groups] and, for some types, minimum [N, groups]; see `formats`."""

LAYOUTS: dict[Kind, np.dtype] = {
    Kind.Q4_0: np.dtype([("d", "<f2"), ("qs", "u1", 16)]),
    Kind.Q4_1: np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)]),
    Kind.Q5_0: np.dtype([("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)]),
    Kind.Q5_1: np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)]),
    Kind.Q8_0: np.dtype([("d", "<f2"), ("qs", "i1", 32)]),
    Kind.IQ4_NL: np.dtype([("d", "<f2"), ("qs", "u1", 16)]),
    Kind.IQ4_XS: np.dtype([("d", "<f2"), ("high", "<u2"), ("low", "u1", 4), ("qs", "u1", (8, 16))]),
    Kind.Q2_K: np.dtype([("sc", "u1", 16), ("qs", "u1", (2, 32)), ("d", "<f2"), ("dmin", "<f2")]),
    Kind.Q3_K: np.dtype([("qh", "u1", 32), ("qs", "u1", (2, 32)), ("sc", "u1", 12), ("d", "<f2")]),
    Kind.Q4_K: np.dtype([("d", "<f2"), ("dmin", "<f2"), ("sc", "u1", 12), ("qs", "u1", (4, 32))]),
    Kind.Q5_K: np.dtype(
        [("d", "<f2"), ("dmin", "<f2"), ("sc", "u1", 12), ("qh", "u1", 32), ("qs", "u1", (4, 32))]
    ),
    Kind.Q6_K: np.dtype(
        [("ql", "u1", (2, 64)), ("qh", "u1", (2, 32)), ("sc", "i1", 16), ("d", "<f2")]
    ),
}

_IQ4_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)


def q4_0(b: Blocks) -> Parts:
    """value = d (q - 8): the one type of 4 bits without a minimum."""
    return _flat(b["qs"]), b["d"]


def q4_1(b: Blocks) -> Parts:
    return _flat(b["qs"]), b["d"], b["m"]


def q4_k(b: Blocks) -> Parts:
    """Each 32 bytes hold 32 columns in their low and the next 32 in their high nibbles."""
    groups = _split_bits(b["qs"], 4)
    q = groups[..., :16] | (groups[..., 16:] << 4)
    return _flat(q), *_k_scales(b)


def q8_0(b: Blocks) -> Parts:
    return _flat(b["qs"]), b["d"]


def q5_0(b: Blocks) -> Parts:
    return _flat(_five_bits(b).astype(np.int8) - np.int8(16)), b["d"]


def q5_1(b: Blocks) -> Parts:
    return _flat(_five_bits(b).astype(np.int8)), b["d"], b["m"]


def iq4_nl(b: Blocks) -> Parts:
    return _flat(_IQ4_VALUES[_halves(b["qs"])]), b["d"]


def iq4_xs(b: Blocks) -> Parts:
    """Scales of 6 bits: four low ones in `low`, two high ones in `high`, in group order."""
    low = np.stack([b["low"] & 15, b["low"] >> 4], axis=-1).reshape(*b.shape, 8)
    high = (b["high"][..., None] >> (2 * np.arange(8, dtype=np.uint16))) & 3
    scales = (low | (high << 4)).astype(np.int16) - 32
    return _flat(_IQ4_VALUES[_halves(b["qs"])]), _scaled(b["d"], scales)


def q2_k(b: Blocks) -> Parts:
    q = _split_bits(b["qs"], 2).astype(np.int8)
    return _flat(q), _scaled(b["d"], b["sc"] & 15), -_scaled(b["dmin"], b["sc"] >> 4)


def q3_k(b: Blocks) -> Parts:
    """Two low bits, and a high bit that is stored inverted: q = low - 4 where it is 0."""
    low = _split_bits(b["qs"], 2).reshape(*b.shape, 8, 32)
    high = _split_bits(b["qh"][..., None, :], 1)
    q = low.astype(np.int8) - np.where(high.reshape(low.shape), np.int8(0), np.int8(4))
    sc = b["sc"]
    low4 = np.concatenate([sc[..., :8] & 15, sc[..., :8] >> 4], axis=-1)
    high2 = _split_bits(sc[..., None, 8:], 2).reshape(*b.shape, 16)
    return _flat(q), _scaled(b["d"], (low4 | (high2 << 4)).astype(np.int8) - np.int8(32))


def q5_k(b: Blocks) -> Parts:
    low = _split_bits(b["qs"], 4).reshape(*b.shape, 8, 32)
    high = _split_bits(b["qh"][..., None, :], 1).reshape(low.shape)
    return _flat((low | (high << 4)).astype(np.int8)), *_k_scales(b)


def q6_k(b: Blocks) -> Parts:
    low = _split_bits(b["ql"], 4).reshape(*b.shape, 8, 32)
    high = _split_bits(b["qh"], 2).reshape(low.shape)
    q = (low | (high << 4)).astype(np.int8) - np.int8(32)
    return _flat(q), _scaled(b["d"], b["sc"])


INT4: dict[Kind, Callable[[Blocks], Parts]] = {Kind.Q4_0: q4_0, Kind.Q4_1: q4_1, Kind.Q4_K: q4_k}

INT8: dict[Kind, Callable[[Blocks], Parts]] = {
    Kind.Q8_0: q8_0,
    Kind.Q5_0: q5_0,
    Kind.Q5_1: q5_1,
    Kind.IQ4_NL: iq4_nl,
    Kind.IQ4_XS: iq4_xs,
    Kind.Q2_K: q2_k,
    Kind.Q3_K: q3_k,
    Kind.Q5_K: q5_k,
    Kind.Q6_K: q6_k,
}


def _flat(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """[N, blocks, ...] → [N, all], contiguous."""
    return np.ascontiguousarray(values).reshape(values.shape[0], -1)


def _split_bits(packed: Bytes, width: int) -> Bytes:
    """[..., n] bytes → [..., 8 / width, n] fields of `width` bits, the lowest bits first."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    fields: Bytes = (packed[..., None, :] >> shifts) & np.uint8((1 << width) - 1)
    return fields


def _halves(packed: Bytes) -> Bytes:
    """[..., 16] bytes → [..., 32] nibbles, the 16 low ones first."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _five_bits(b: Blocks) -> Bytes:
    high = np.unpackbits(b["qh"], axis=-1, bitorder="little") << np.uint8(4)
    return _halves(b["qs"]) | high


def _scaled(d: NDArray[np.float16], scales: NDArray[np.integer]) -> NDArray[np.float32]:
    """float32 products, exact: 11 bits times at most 8. [N, blocks], [N, blocks, g] → [N, all]."""
    return (d.astype(np.float32)[..., None] * scales.astype(np.float32)).reshape(d.shape[0], -1)


def _k_scales(b: Blocks) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scale and minimum of Q4_K and Q5_K: 6 bits each in 12 bytes.

    Bytes 0-3: scales 0-3, and in the top two bits the high bits of scales 4-7. Bytes 4-7: the same
    of the minimums. Bytes 8-11: the low four bits of scales 4-7 and, above them, of minimums 4-7.
    """
    first, second, third = b["sc"][..., :4], b["sc"][..., 4:8], b["sc"][..., 8:]
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 2) & 48)], axis=-1)
    minimums = np.concatenate([second & 63, (third >> 4) | ((second >> 2) & 48)], axis=-1)
    return _scaled(b["d"], scales), -_scaled(b["dmin"], minimums)
