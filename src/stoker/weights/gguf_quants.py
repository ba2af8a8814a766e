"""GGUF blocks → the house's number formats, without changing a value.

A type whose values are scale x small integer (+ minimum) keeps its integers: 4-bit types in
Int4Weight, the others in Int8Weight, with the scale in float32 where it is a product of two numbers
that float16 cannot hold. Every other type the `gguf` package can read is dequantised and kept in
the smallest float format that holds it exactly. Rows are independent, so any range of a tensor's
rows may be converted alone, on any thread.
"""

from __future__ import annotations

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from numpy.typing import NDArray

from stoker.weights.formats import FloatFormat, FloatWeight, Int4Weight, Int8Weight, Weight
from stoker.weights.gguf_blocks import INT4, INT8, LAYOUTS

Bytes = NDArray[np.uint8]

_FLOATS: dict[Kind, tuple[FloatFormat, str]] = {
    Kind.F32: ("f32", "<f4"),
    Kind.F16: ("f16", "<f2"),
    Kind.BF16: ("bf16", "<u2"),
}

_SLICE_BYTES = 1 << 18
"""Source bytes taken apart at a time, so that temporaries stay in a core's cache."""


def convert(rows: Bytes, kind: Kind) -> Weight:
    """uint8 [N, bytes per row] → an [N, K] weight. NotImplementedError if `gguf` cannot read it."""
    if kind in _FLOATS:
        format_, dtype = _FLOATS[kind]
        return FloatWeight(format_, _aligned(rows).view(dtype))
    if kind in INT4:
        q, scale, *rest = _parts(rows, kind)
        return Int4Weight(q, scale, rest[0] if rest else None)
    if kind in INT8:
        q, scale, *rest = _parts(rows, kind)
        group = q.shape[1] // scale.shape[1]
        return Int8Weight(q, scale, rest[0] if rest else None, 16 if group == 16 else 32)
    return smallest_float(quants.dequantize(rows, kind))


def bytes_per_weight(kind: Kind) -> float:
    """Of what `convert` makes of a type; float32 for one that no small format is known to hold."""
    if kind in INT4 or kind in INT8:
        size, stored = GGML_QUANT_SIZES[kind]
        return convert(np.zeros((1, stored), np.uint8), kind).nbytes / size
    return np.dtype(_FLOATS[kind][1]).itemsize if kind in _FLOATS else 4


def to_float(rows: Bytes, kind: Kind) -> NDArray[np.float32]:
    """uint8 [N, bytes per row] → float32 [N, K], for vectors. NotImplementedError as above."""
    return quants.dequantize(_aligned(rows), kind)


def smallest_float(values: NDArray[np.float32]) -> FloatWeight:
    """float16, else bfloat16, else float32: the first that holds every value exactly."""
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    if np.array_equal(half.astype(np.float32), values, equal_nan=True):
        return FloatWeight("f16", half)
    bits = np.ascontiguousarray(values).view(np.uint32)
    if not (bits & 0xFFFF).any():
        return FloatWeight("bf16", (bits >> 16).astype(np.uint16))
    return FloatWeight("f32", values)


def _parts(rows: Bytes, kind: Kind) -> list[np.ndarray]:
    """Take the blocks apart slice by slice, into arrays of the whole."""
    blocks = np.ascontiguousarray(rows).view(LAYOUTS[kind])
    take_apart = (INT4 | INT8)[kind]
    step = max(1, _SLICE_BYTES // rows.shape[1])
    whole: list[np.ndarray] = []
    for start in range(0, len(blocks), step):
        parts = take_apart(blocks[start : start + step])
        if not whole:
            whole = [np.empty((len(blocks), part.shape[1]), part.dtype) for part in parts]
        for target, part in zip(whole, parts, strict=True):
            target[start : start + step] = part
    return whole


def _aligned(rows: Bytes) -> Bytes:
    """The same rows, contiguous and at an address that suits floats; nearly always a view."""
    rows = np.ascontiguousarray(rows)
    return rows if rows.ctypes.data % 4 == 0 else rows.copy()
