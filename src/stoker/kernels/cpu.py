"""The native kernel set: NumPy arrays in and out, C++ on their memory (`csrc/`).

The extension gets addresses and sizes, nothing else. So everything that makes an address
safe is checked here (type, shape, contiguity), and what only contents can tell (ids, positions,
page numbers) there. This module must not know of models or batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from stoker.core.config import KernelName
from stoker.core.model import PAGE_SIZE, Activation, KVDtype
from stoker.kernels import _native, memory
from stoker.kernels.ops import Draw, Ints, LayerKV, PackedWeight, Rows
from stoker.weights.formats import GROUP, FloatFormat, FloatWeight, Int4Weight, Int8Weight, Weight

Array = NDArray[np.float32]
FormatName = Literal[FloatFormat, "int8", "int4"]
F32, I32 = np.dtype(np.float32), np.dtype(np.int32)

_DTYPES: dict[FloatFormat, np.dtype[np.generic]] = {
    "f32": F32,
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),  # NumPy has no bfloat16: its bits
}
Layout = tuple[int, int, FormatName, bool, bool, int]
"""Of a packed weight: rows, columns, number format, wide scales, minimum, columns per scale."""

_NUMBERS = {dtype: getattr(_native.Number, name) for name, dtype in _DTYPES.items()}


class CpuOps:
    """The kernel set `cpu`; see `kernels.ops.Ops` for the contract of each method.

    threads: how many work on one op, the caller among them. isa: one of `available_isas()`;
    None takes the best that this CPU has. Results do not depend on `threads`. vnni and avx2 give
    the same bits; portable rounds differently, and avx512 does in attention over bf16 pages.
    cpus: empty, or a logical CPU for each thread to be bound to; the first, the caller's, is for
    the caller to bind.

    Raises:
        ValueError: an array has a wrong type or shape, or an id, position or page out of range; an
            isa that this CPU lacks.
    """

    name: KernelName = "cpu"

    def __init__(self, threads: int, isa: str | None = None, cpus: Sequence[int] = ()) -> None:
        if threads < 1:
            raise ValueError(f"threads is {threads}, but must be at least 1")
        if cpus and len(cpus) != threads:
            raise ValueError(f"cpus are {len(cpus)}, but threads is {threads}")
        self.isa = isa or available_isas()[0]
        self.threads = threads
        self._native = _native.Kernels(threads, self.isa, cpus)

    def new_plan(self) -> _native.Plan:
        """An empty plan on these kernels and threads; see `kernels.plan`."""
        return self._native.plan()

    def pack(self, weight: Weight) -> PackedWeight:
        if len(weight.shape) != 2:
            raise ValueError(f"a weight to pack has shape {weight.shape}, but must be [N, K]")
        if isinstance(weight, FloatWeight):
            rows, columns = weight.shape
            data = _source("a weight", weight.data, _DTYPES[weight.format], (rows, columns))
            return self._native.pack_float(
                _address(data), rows, columns, getattr(_native.Format, weight.format)
            )
        return self._pack_int(weight)

    def _pack_int(self, weight: Int4Weight | Int8Weight) -> PackedWeight:
        rows, columns = weight.shape
        four = isinstance(weight, Int4Weight)
        group = GROUP if isinstance(weight, Int4Weight) else weight.group
        if columns % GROUP or group not in (16, 32):
            raise ValueError(
                f"a weight has {columns} columns in groups of {group}, but int4 and int8 need a "
                f"multiple of {GROUP} in groups of 32 or 16"
            )
        wide = weight.scale.dtype == np.float32
        kind = _DTYPES["f32" if wide else "f16"]
        codes = _source(
            "codes",
            weight.q,
            np.dtype(np.uint8 if four else np.int8),
            (rows, columns // 2 if four else columns),
        )
        shape = (rows, columns // group)
        scale = _source("scales", weight.scale, kind, shape)
        minimum = None if weight.minimum is None else _source("minima", weight.minimum, kind, shape)
        return self._native.pack_int(
            _address(codes),
            _address(scale),
            0 if minimum is None else _address(minimum),
            rows,
            columns,
            _native.Format.int4 if four else _native.Format.int8,
            wide,
            group,
        )

    def unfilled(self, layout: Layout) -> _native.PackedWeight:
        """Memory for a weight that was packed before; see `kernels.packed_file`."""
        rows, columns, name, wide_scales, has_minimum, group = layout
        block = GROUP if name in ("int4", "int8") else 1
        if min(rows, columns) < 1 or columns % block or group not in (16, 32):
            raise ValueError(f"a packed weight cannot be {layout}")
        number = getattr(_native.Format, name)
        return self._native.unfilled(rows, columns, number, wide_scales, has_minimum, group)

    def vector(self, weight: Weight) -> Array:
        if not isinstance(weight, FloatWeight) or len(weight.shape) != 1:
            raise ValueError(f"a vector has shape {weight.shape}, but must be floats [N]")
        if weight.format == "bf16":
            return (weight.data.astype(np.uint32) << 16).view(np.float32)
        return weight.data.astype(np.float32)

    def array(self, values: Array) -> Array:
        return values

    def numpy(self, array: Array) -> Array:
        return array

    def embed(self, token_ids: Ints, table: PackedWeight, scale: float) -> Array:
        (count,) = token_ids.shape
        out = np.empty((count, table.shape[1]), F32)
        self._native.embed(
            _checked("token_ids", token_ids, I32), count, _packed(table), scale, _address(out)
        )
        return out

    def linear(self, x: Array, weight: PackedWeight, bias: Array | None = None) -> Array:
        rows = x.shape[0]
        n, k = weight.shape
        out = np.empty((rows, n), F32)
        self._native.linear(
            _checked("x", x, F32, (rows, k)),
            rows,
            _packed(weight),
            0 if bias is None else _checked("bias", bias, F32, (n,)),
            _address(out),
        )
        return out

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        width = x.shape[-1]
        out = np.empty_like(x)
        self._native.rms_norm(
            _checked("x", x, F32),
            _checked("weight", weight, F32, (width,)),
            x.size // max(width, 1),
            width,
            eps,
            _address(out),
        )
        return out

    def rope_and_store(
        self, q: Array, k: Array, v: Array, cos_sin: Array, rows: Rows, kv: LayerKV
    ) -> Array:
        count, heads, dim = q.shape
        pages = layer_kv(kv, dim)
        kv_shape = (count, kv.k.shape[1], dim)
        out = np.empty_like(q)
        self._native.rope_and_store(
            _checked("q", q, F32),
            _checked("k", k, F32, kv_shape),
            _checked("v", v, F32, kv_shape),
            _checked("cos_sin", cos_sin, F32, (cos_sin.shape[0], dim)),
            cos_sin.shape[0],
            _row_map(rows, count),
            pages,
            heads,
            _address(out),
        )
        return out

    def attention(
        self, q: Array, rows: Rows, kv: LayerKV, scale: float, window: int | None
    ) -> Array:
        count, heads, dim = q.shape
        if heads % kv.k.shape[1]:
            raise ValueError(f"q has {heads} heads, but kv has {kv.k.shape[1]}: not a multiple")
        if window is not None and window < 1:
            raise ValueError(f"window is {window}, but must be at least 1")
        out = np.empty((count, heads * dim), F32)
        self._native.attention(
            _checked("q", q, F32),
            _row_map(rows, count),
            layer_kv(kv, dim),
            heads,
            scale,
            window or 0,
            _address(out),
        )
        return out

    def glu(self, gate: Array, up: Array, activation: Activation) -> Array:
        if activation not in ("silu", "gelu_tanh"):
            raise ValueError(f"activation is {activation}, but must be silu or gelu_tanh")
        out = np.empty_like(gate)
        self._native.glu(
            _checked("gate", gate, F32),
            _checked("up", up, F32, gate.shape),
            gate.size,
            activation == "gelu_tanh",
            _address(out),
        )
        return out

    def add(self, x: Array, y: Array) -> Array:
        out = np.empty_like(x)
        self._native.add(
            _checked("x", x, F32), _checked("y", y, F32, x.shape), x.size, _address(out)
        )
        return out

    def rows(self, x: Array, index: Ints) -> Array:
        count, width = x.shape
        (picked,) = index.shape
        out = np.empty((picked, width), F32)
        self._native.rows(
            _checked("x", x, F32),
            count,
            width,
            _checked("index", index, I32),
            picked,
            _address(out),
        )
        return out

    def sample(self, logits: Array, draws: list[Draw]) -> list[int]:
        count, vocab = logits.shape
        if count and not vocab:
            raise ValueError("logits have 0 columns, but a token must be drawn from at least 1")
        return self._native.sample(_checked("logits", logits, F32), count, vocab, draws)

    def logprobs(self, logits: Array, tokens: Ints, k: int) -> tuple[Array, Ints, Array]:
        count, vocab = logits.shape
        if not 0 <= k <= vocab:
            raise ValueError(f"k is {k}, but must be at least 0 and at most {vocab}")
        picked = np.empty(count, F32)
        top_ids = np.empty((count, k), I32)
        top = np.empty((count, k), F32)
        self._native.logprobs(
            _checked("logits", logits, F32),
            count,
            vocab,
            _checked("tokens", tokens, I32, (count,)),
            k,
            _address(picked),
            _address(top_ids),
            _address(top),
        )
        return picked, top_ids, top

    def new_kv_pool(self, num_pages: int, page_values: int, dtype: KVDtype) -> NDArray[np.generic]:
        kind = _DTYPES[dtype]
        raw = memory.zeros(num_pages * page_values * kind.itemsize)
        return raw.view(kind).reshape(num_pages, page_values)


def layout_of(weight: PackedWeight) -> Layout:
    rows, columns, number, wide_scales, has_minimum, group = _packed(weight).layout
    return rows, columns, cast(FormatName, number.name), wide_scales, has_minimum, group


def address_of(weight: PackedWeight) -> int:
    """Where its `nbytes` bytes are, which belong to it."""
    return _packed(weight).address


def available_isas() -> tuple[str, ...]:
    """The instruction sets that this CPU and this build offer, fastest first."""
    return tuple(_native.isas())


def _checked(
    name: str,
    array: NDArray[np.generic],
    dtype: np.dtype[np.generic],
    shape: tuple[int, ...] | None = None,
) -> int:
    """The address of a contiguous array of this type and shape; ValueError for any other."""
    flags = array.flags
    contiguous = flags.c_contiguous and flags.aligned
    if array.dtype != dtype or (shape is not None and array.shape != shape) or not contiguous:
        wanted = "any shape" if shape is None else f"shape {list(shape)}"
        state = "contiguous" if contiguous else "not contiguous"
        raise ValueError(
            f"{name} is {array.dtype} {list(array.shape)} and {state}, "
            f"but must be {dtype} of {wanted} and contiguous"
        )
    return _address(array)


def _packed(weight: PackedWeight) -> _native.PackedWeight:
    if not isinstance(weight, _native.PackedWeight):
        raise ValueError(f"a weight is {type(weight)}, but must be packed by the cpu kernel set")
    return weight


def _row_map(rows: Rows, count: int) -> _native.RowMap:
    sequences, max_pages = rows.page_table.shape
    return _native.RowMap(
        _checked("positions", rows.positions, I32, (count,)),
        _checked("row_seq", rows.row_seq, I32, (count,)),
        _checked("page_table", rows.page_table, I32),
        count,
        sequences,
        max_pages,
    )


def checked_vector(array: Array, size: int) -> int:
    """The address of a float32 [size] array; ValueError for any other."""
    return _checked("a vector", array, F32, (size,))


def layer_kv(kv: LayerKV, dim: int) -> _native.KV:
    """A layer's pages for heads of `dim` as the kernels see them; ValueError where they cannot."""
    k, v = kv.k, kv.v
    pages, heads = k.shape[0], k.shape[1]
    number = _NUMBERS.get(k.dtype)
    k_strides, v_strides = (
        tuple(bytes_ // array.itemsize for bytes_ in array.strides) for array in (k, v)
    )
    if (
        number is None
        or v.dtype != k.dtype
        or dim % 2
        or k.shape != (pages, heads, dim, PAGE_SIZE)
        or v.shape != (pages, heads, PAGE_SIZE, dim)
        or k_strides[1:] != (dim * PAGE_SIZE, PAGE_SIZE, 1)
        or v_strides[1:] != (dim * PAGE_SIZE, dim, 1)
    ):
        raise ValueError(
            f"kv is {k.dtype} {list(k.shape)} and {v.dtype} {list(v.shape)}, but for heads of "
            f"{dim} must be [pages, heads, {dim}, {PAGE_SIZE}] and [pages, heads, {PAGE_SIZE}, "
            f"{dim}] in f32, f16 or bf16, the last three dimensions contiguous, head_dim even"
        )
    return _native.KV(
        _address(k), _address(v), k_strides[0], v_strides[0], pages, heads, dim, number
    )


def _source(
    name: str, array: NDArray[np.generic], dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """A weight array as the packers read it: row-major; copied only if it is not."""
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} are {array.dtype} {list(array.shape)}, but must be {dtype} {list(shape)}"
        )
    return np.ascontiguousarray(array)


def _address(array: NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])
