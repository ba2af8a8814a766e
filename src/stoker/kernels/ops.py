"""The contract of a kernel set: every op a model may call, on opaque arrays.

`reference.py` (PyTorch) is the specification, `cpu.py` (C++) the fast path. Activations: float32.

The promise of the house rests here: **a row's result depends on nothing but that row's inputs**.
Not on how many rows there are, how rows are cut into calls, or how work is shared between threads.
The native set keeps this bit for bit; the reference set, whose matmuls pick tiles by size, cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.core.config import KernelName
from stoker.core.model import Activation, KVDtype
from stoker.weights.formats import Weight

Array = Any
"""Numbers where a kernel set keeps them: a NumPy array for `cpu` (bf16 as uint16), a PyTorch tensor
for `reference`, a symbol while a model is recorded. Only its own set computes with it; others may
ask for its `shape`, index it and `reshape` it. What a step says about itself is NumPy's for all."""

Ints = NDArray[np.int32]


class PackedWeight(Protocol):
    """A weight in the layout its kernel set computes on. Opaque to everyone else."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nbytes(self) -> int: ...


class Tensors(Protocol):
    """A checkpoint's tensors as one kernel set computes with them, by name. Any thread may ask."""

    def packed(self, name: str) -> PackedWeight: ...

    def vector(self, name: str) -> Array: ...


@dataclass(frozen=True, slots=True)
class LayerKV:
    """One layer's share of the page pool: strided views, nothing owned.

    k: [num_pages, kv_heads, head_dim, PAGE_SIZE], v: [num_pages, kv_heads, PAGE_SIZE, head_dim], in
    the KV dtype; the last three dimensions are contiguous.
    """

    k: Array
    v: Array


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the T rows of a step come from: B sequences, each a run of consecutive positions.

    positions: int32 [T], absolute. row_seq: int32 [T], the row's sequence in 0..B-1, rising.
    page_table: int32 [B, max_pages] of one KV group; entry i is the physical page of positions
    16i..16i+15, -1 where it is not needed.
    """

    positions: Ints
    row_seq: Ints
    page_table: Ints


class Draw(NamedTuple):
    """How to draw one token from a row of logits."""

    temperature: float
    """0 is greedy."""
    top_p: float
    min_p: float
    top_k: int
    """0: all."""
    seed: int
    """64 bits, of either sign."""
    choice: int
    position: int


class Ops(Protocol):
    """All arrays are contiguous unless said otherwise; results are new arrays."""

    name: KernelName

    def pack(self, weight: Weight) -> PackedWeight:
        """Lay out an [N, K] weight for `linear` and `embed`. Called once, at load."""

    def vector(self, weight: Weight) -> Array:
        """An [N] weight (norm, bias) as float32."""

    def array(self, values: NDArray[np.float32]) -> Array:
        """Numbers of any shape for this set to compute with; may share memory with `values`."""

    def numpy(self, array: Array) -> NDArray[np.float32]:
        """The numbers of a float32 array; read only, for they may be the array's own memory."""

    def embed(self, token_ids: Ints, table: PackedWeight, scale: float) -> Array:
        """int32 [T] → float32 [T, K]: rows of the table times `scale`."""

    def linear(self, x: Array, weight: PackedWeight, bias: Array | None = None) -> Array:
        """[T, K] × [N, K] → [T, N]. The native set quantises x to int8 per row and group of 32 for
        int4 and int8 weights; the reference set computes with dequantised weights."""

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        """x / sqrt(mean(x²) + eps) * weight over the last dimension (Zhang & Sennrich 2019)."""

    def rope_and_store(
        self, q: Array, k: Array, v: Array, cos_sin: Array, rows: Rows, kv: LayerKV
    ) -> Array:
        """Rotate q and k, write k and v (rounded to the KV dtype) into their pages, return q.

        q: [T, heads, head_dim]; k, v: [T, kv_heads, head_dim]; cos_sin: float32
        [max_positions, head_dim], cos in the first half of a row and sin in the second. Half-split
        pairing: (x1, x2) → (x1 cos - x2 sin, x2 cos + x1 sin) with x1 = x[:D/2] (Su et al. 2021).
        """

    def attention(
        self, q: Array, rows: Rows, kv: LayerKV, scale: float, window: int | None
    ) -> Array:
        """Causal grouped-query attention of each row over its pages → [T, heads * head_dim].

        Row t attends positions max(0, p - window + 1)..p with p = positions[t]. Keys of the step
        itself are read from the pages too, so a chunk boundary cannot be seen in the result.
        """

    def glu(self, gate: Array, up: Array, activation: Activation) -> Array:
        """activation(gate) * up (Shazeer 2020). gelu_tanh is the tanh approximation."""

    def add(self, x: Array, y: Array) -> Array: ...

    def rows(self, x: Array, index: Ints) -> Array:
        """x[index] for int32 [S] row numbers."""

    def sample(self, logits: Array, draws: list[Draw]) -> list[int]:
        """float32 [S, V] (already biased and penalised) → a token id for each row.

        -1 where nothing can be drawn from a row: it has NaN or +inf, or nothing finite. Else:
        temperature 0: argmax, ties to the lowest id. Else, in this order: p = softmax(logits / t);
        drop p < max(min_p, 2^-40) * max(p); keep the top_k most probable; of those (renormalised)
        keep the smallest set of most probable tokens whose mass reaches top_p; ties favour the
        lower id. Then draw by inverse CDF over the kept tokens in id order with u = Philox4x32-10
        (Salmon et al. 2011; key = seed, counter = (position low, position high, choice, 0)), the
        first two output words as a 53-bit fraction.
        """

    def logprobs(
        self, logits: Array, tokens: Ints, k: int
    ) -> tuple[NDArray[np.float32], Ints, NDArray[np.float32]]:
        """float32 [S, V], int32 [S] → logprob [S], top ids int32 [S, k], top logprobs [S, k].

        Natural log of softmax(logits), falling, ties to the lower id.
        """

    def new_kv_pool(self, num_pages: int, page_values: int, dtype: KVDtype) -> Array:
        """Zero-filled-on-touch storage [num_pages, page_values]; memory is committed when used."""
