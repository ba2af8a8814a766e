"""The C++ extension (`csrc/module.cpp`). Every `int` that stands for an array is its address."""

from collections.abc import Sequence
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

class Code(Enum):
    f32 = 0
    i8 = 1
    i8_halves = 2

class Source(Enum):
    rows = 0
    rms_norm = 1
    silu_glu = 2
    gelu_glu = 3

class PackedWeight:
    @property
    def code(self) -> Code: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def layout(self) -> tuple[int, int, Format, bool, bool, int]: ...
    @property
    def address(self) -> int: ...
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

class Step:
    def __init__(self, max_tokens: int, max_seqs: int, groups: int, max_pages: int, /) -> None: ...
    def clear(self) -> None: ...
    def add(
        self,
        token_ids: Sequence[int],
        start: int,
        page_tables: Sequence[Sequence[int]],
        samples: bool,
        /,
    ) -> None: ...
    @property
    def num_samples(self) -> int: ...

class Plan:
    def embed(self, table: PackedWeight, scale: float, result: int, /) -> None: ...
    def take_rows(self, x: int, k: int, result: int, /) -> None: ...
    def prepare(
        self,
        samples: bool,
        times: int,
        source: Source,
        x: int,
        y: int,
        weight: int,
        eps: float,
        k: int,
        result: tuple[int, int, int],
        /,
    ) -> None: ...
    def product(
        self,
        samples: bool,
        times: int,
        k: int,
        x: tuple[int, int, int],
        parts: list[tuple[PackedWeight, int, int, int]],
        /,
    ) -> None: ...
    def gated(
        self,
        samples: bool,
        times: int,
        k: int,
        x: tuple[int, int, int],
        gate: tuple[PackedWeight, int, int, int],
        up: tuple[PackedWeight, int, int, int],
        gelu: bool,
        result: int,
        /,
    ) -> None: ...
    def add(
        self, samples: bool, times: int, x: int, y: int, width: int, result: int, /
    ) -> None: ...
    def rope_and_store(
        self,
        group: int,
        q: int,
        k: int,
        v: int,
        cos_sin: int,
        max_positions: int,
        kv: KV,
        heads: int,
        q_norm: int,
        k_norm: int,
        q_eps: float,
        k_eps: float,
        result: int,
        /,
    ) -> None: ...
    def attention(
        self,
        group: int,
        q: int,
        kv: KV,
        heads: int,
        scale: float,
        window: int,
        result: int,
        /,
    ) -> None: ...
    def run(self, step: Step, /) -> None: ...

class Kernels:
    def __init__(self, threads: int, isa: str, cpus: Sequence[int]) -> None: ...
    @property
    def isa(self) -> str: ...
    @property
    def threads(self) -> int: ...
    def plan(self) -> Plan: ...
    def unfilled(
        self,
        n: int,
        k: int,
        format: Format,
        wide_scales: bool,
        has_minimum: bool,
        group: int,
        /,
    ) -> PackedWeight: ...
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
        draws: Sequence[tuple[float, float, float, int, int, int, int]],
        /,
    ) -> list[int]: ...
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

def operand_bytes(code: Code, rows: int, width: int, /) -> int: ...
def isas() -> list[str]: ...
