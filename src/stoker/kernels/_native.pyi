"""The C++ extension (`csrc/module.cpp`). Every `int` that stands for an array is its address."""

from enum import Enum

class Format(Enum):
    f32 = 0
    f16 = 1
    bf16 = 2
    int8 = 3
    int4 = 4

class Number(Enum):
    f32 = 0
    f16 = 1
    bf16 = 2

class PackedWeight:
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nbytes(self) -> int: ...

class RowMap:
    def __init__(
        self, positions: int, row_seq: int, page_table: int, T: int, B: int, max_pages: int, /
    ) -> None: ...

class KV:
    def __init__(
        self,
        k: int,
        v: int,
        k_stride: int,
        v_stride: int,
        num_pages: int,
        kv_heads: int,
        head_dim: int,
        number: Number,
        /,
    ) -> None: ...

class Kernels:
    def __init__(self, threads: int, isa: str) -> None: ...
    @property
    def isa(self) -> str: ...
    @property
    def threads(self) -> int: ...
    def pack_float(self, data: int, n: int, k: int, format: Format, /) -> PackedWeight: ...
    def pack_int(
        self,
        codes: int,
        scale: int,
        minimum: int,
        n: int,
        k: int,
        format: Format,
        wide_scales: bool,
        group: int,
        /,
    ) -> PackedWeight: ...
    def embed(
        self, ids: int, T: int, table: PackedWeight, scale: float, result: int, /
    ) -> None: ...
    def linear(self, x: int, M: int, weight: PackedWeight, bias: int, result: int, /) -> None: ...
    def rms_norm(self, x: int, weight: int, M: int, K: int, eps: float, result: int, /) -> None: ...
    def glu(self, gate: int, up: int, n: int, gelu: bool, result: int, /) -> None: ...
    def add(self, x: int, y: int, n: int, result: int, /) -> None: ...
    def rows(self, x: int, M: int, K: int, index: int, S: int, result: int, /) -> None: ...
    def rope_and_store(
        self,
        q: int,
        k: int,
        v: int,
        cos_sin: int,
        max_positions: int,
        rows: RowMap,
        kv: KV,
        heads: int,
        result: int,
        /,
    ) -> None: ...
    def attention(
        self, q: int, rows: RowMap, kv: KV, heads: int, scale: float, window: int, result: int, /
    ) -> None: ...
    def sample(
        self,
        logits: int,
        S: int,
        V: int,
        temperature: int,
        top_p: int,
        min_p: int,
        top_k: int,
        seed: int,
        choice: int,
        position: int,
        result: int,
        /,
    ) -> None: ...
    def logprobs(
        self,
        logits: int,
        S: int,
        V: int,
        tokens: int,
        k: int,
        picked: int,
        top_ids: int,
        top: int,
        /,
    ) -> None: ...

def isas() -> tuple[str, ...]: ...
