"""Random weights, pages and rows for the tests of kernel sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from stoker.core.model import PAGE_SIZE
from stoker.kernels.cpu import CpuOps, available_isas
from stoker.kernels.ops import LayerKV, Rows
from stoker.kernels.reference import ReferenceOps
from stoker.weights.formats import FloatWeight, Int4Weight, Int8Weight, Weight

ISAS = available_isas()
REFERENCE = ReferenceOps()
KV_TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
FLOAT_KINDS = ("f32", "f16", "bf16")
INT_KINDS = tuple(
    f"{bits}-{scales}" + rest
    for scales in ("f16", "f32")
    for bits, rest in (
        ("int4", ""),
        ("int4", "-minimum"),
        ("int8", "-32"),
        ("int8", "-32-minimum"),
        ("int8", "-16"),
        ("int8", "-16-minimum"),
    )
)


class Native:
    """The cpu set on PyTorch's tensors, so that both sets can be given the same arguments."""

    def __init__(self, ops: CpuOps) -> None:
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ops, name)

        def call(*args: Any) -> Any:
            result = method(*map(as_numpy, args))
            return torch.from_numpy(result) if isinstance(result, np.ndarray) else result

        return call


def native(isa: str, threads: int = 2) -> Native:
    return Native(CpuOps(threads, isa))


def as_numpy(value: Any) -> Any:
    """What a tensor, or pages of tensors, are to the cpu set: the same memory, bf16 as bits."""
    if isinstance(value, LayerKV):
        return LayerKV(as_numpy(value.k), as_numpy(value.v))
    if isinstance(value, torch.Tensor):
        return (value.view(torch.uint16) if value.dtype is torch.bfloat16 else value).numpy()
    return value


def random_weight(kind: str, n: int, k: int, seed: int = 0) -> Weight:
    """An [n, k] weight whose values are about as large as a trained matrix's: |w| below 0.2."""
    rng = np.random.default_rng(seed)
    if kind in FLOAT_KINDS:
        values = rng.uniform(-0.2, 0.2, (n, k)).astype(np.float32)
        if kind == "bf16":
            return FloatWeight("bf16", (values.view(np.uint32) >> 16).astype(np.uint16))
        return FloatWeight(kind, values.astype(np.float16) if kind == "f16" else values)
    parts = kind.split("-")
    scales = np.float16 if parts[1] == "f16" else np.float32
    if parts[0] == "int4":
        scale = rng.uniform(0.001, 0.02, (n, k // 32)).astype(scales)
        codes = rng.integers(0, 256, (n, k // 2), dtype=np.uint8)
        minimum = (-7.5 * scale).astype(scales) if "minimum" in parts else None
        return Int4Weight(codes, scale, minimum)
    group = int(parts[2])
    scale = rng.uniform(0.0001, 0.001, (n, k // group)).astype(scales)
    minimum = rng.uniform(-0.05, 0.05, scale.shape).astype(scales) if "minimum" in parts else None
    codes = rng.integers(-128, 128, (n, k), dtype=np.int8)
    return Int8Weight(codes, scale, minimum, 16 if group == 16 else 32)


@dataclass(frozen=True)
class Paged:
    """KV of some sequences of `lengths` tokens, scattered over a pool that else holds NaN."""

    lengths: tuple[int, ...]
    kv: LayerKV
    page_table: np.ndarray
    cos_sin: torch.Tensor

    def rows(self, ranges: Sequence[tuple[int, int]]) -> Rows:
        """The rows begin..end-1 of each sequence, one range per sequence."""
        positions = [p for begin, end in ranges for p in range(begin, end)]
        sequences = [s for s, (begin, end) in enumerate(ranges) for _ in range(begin, end)]
        return Rows(np.array(positions, np.int32), np.array(sequences, np.int32), self.page_table)

    def index(self, ranges: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Where those rows stand among all rows of all sequences."""
        starts = np.cumsum((0, *self.lengths[:-1]))
        return torch.tensor(
            [
                int(start) + p
                for start, (begin, end) in zip(starts, ranges, strict=True)
                for p in range(begin, end)
            ],
            dtype=torch.long,
        )


def empty_pages(
    lengths: Sequence[int], kv_heads: int, head_dim: int, dtype: torch.dtype, seed: int = 0
) -> Paged:
    """A pool of NaN with shuffled pages given to each sequence; nothing written yet."""
    needed = [-(-length // PAGE_SIZE) for length in lengths]
    num_pages = sum(needed) + 3
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(num_pages, generator=generator).numpy()
    table = np.full((len(lengths), max(needed) + 1), -1, np.int32)
    taken = 0
    for sequence, count in enumerate(needed):
        table[sequence, :count] = shuffled[taken : taken + count]
        taken += count
    pool = torch.full((num_pages, 2, kv_heads * head_dim * PAGE_SIZE), float("nan"), dtype=dtype)
    kv = LayerKV(
        pool[:, 0].view(num_pages, kv_heads, head_dim, PAGE_SIZE),
        pool[:, 1].view(num_pages, kv_heads, PAGE_SIZE, head_dim),
    )
    cos_sin = torch.randn(max(lengths), head_dim, generator=generator)
    return Paged(tuple(lengths), kv, table, cos_sin)


def filled_pages(
    lengths: Sequence[int], kv_heads: int, head_dim: int, dtype: torch.dtype, seed: int = 0
) -> Paged:
    """Pages with random keys and values of every position, written by the reference set."""
    paged = empty_pages(lengths, kv_heads, head_dim, dtype, seed)
    rows = paged.rows([(0, length) for length in lengths])
    generator = torch.Generator().manual_seed(seed + 1)
    shape = (sum(lengths), kv_heads, head_dim)
    k, v = (torch.randn(shape, generator=generator) for _ in range(2))
    REFERENCE.rope_and_store(k, k, v, torch.sin(paged.cos_sin), rows, paged.kv)
    return paged
