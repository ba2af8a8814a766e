"""Records what a model does with a kernel set, instead of doing it.

A `Recorder` takes the place of `Ops` while a model's forward runs once. Its arrays are symbols:
they have a width, but a number of rows that only a step knows. What comes out is a list of ops in
the order of the calls; `fuse` makes it shorter and `plan` makes it run. It must not know of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stoker.core.model import Activation
from stoker.kernels import _native
from stoker.kernels.ops import Array, LayerKV


@dataclass(frozen=True, slots=True)
class Axis:
    """How many rows an array has in a step: `times` for each token, or for each sampled row."""

    samples: bool
    times: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory that some op fills: [rows of axis, width] in a code; one object, one array."""

    axis: Axis
    width: int
    code: _native.Code = _native.Code.f32


@dataclass(frozen=True, slots=True)
class Symbol:
    """A float32 array [rows, *inner] of a step; views share their buffer."""

    buffer: Buffer
    inner: tuple[int, ...]

    @property
    def shape(self) -> tuple[Axis | int, ...]:
        return (self.buffer.axis, *self.inner)

    def reshape(self, shape: Sequence[Axis | int]) -> Symbol:
        """The same numbers as [rows, ...]; one of the inner dimensions may be -1."""
        rows, *wanted = shape
        known = 1
        for size in wanted:
            known *= size if isinstance(size, int) and size > 0 else 1
        width = self.buffer.width
        inner = tuple(width // known if size == -1 else size for size in wanted)
        if rows != self.buffer.axis or width % known:
            raise ValueError(f"{self.shape} cannot be seen as {tuple(shape)}")
        return Symbol(self.buffer, tuple(int(size) for size in inner))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class StepRows:
    """Stands for `ops.Rows` of one KV group in whatever step is run."""

    group: int


@dataclass(frozen=True, slots=True, eq=False)
class Embed:
    table: _native.PackedWeight
    scale: float
    out: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """residual: added to the product where it is not None."""

    x: Buffer
    weight: _native.PackedWeight
    bias: Array | None
    out: Buffer
    residual: Buffer | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HeadNorm:
    weight: Array
    eps: float


@dataclass(frozen=True, slots=True, eq=False)
class RmsNorm:
    """Over the last `len(weight)` numbers: a row of the buffer may hold several heads."""

    x: Buffer
    norm: HeadNorm
    out: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Glu:
    gate: Buffer
    up: Buffer
    activation: Activation
    out: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Add:
    x: Buffer
    y: Buffer
    out: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class TakeRows:
    """The rows that the step wants logits of."""

    x: Buffer
    out: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class RopeAndStore:
    """q_norm, k_norm: heads are normalised before rotation where not None."""

    q: Buffer
    k: Buffer
    v: Buffer
    cos_sin: Array
    group: int
    kv: LayerKV
    heads: int
    out: Buffer
    q_norm: HeadNorm | None = None
    k_norm: HeadNorm | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Attend:
    q: Buffer
    group: int
    kv: LayerKV
    heads: int
    scale: float
    window: int | None
    out: Buffer


Op = Embed | Linear | RmsNorm | Glu | Add | TakeRows | RopeAndStore | Attend


@dataclass(slots=True)
class Recorder:
    """The compute methods of `kernels.ops.Ops` on symbols. Shapes are checked as they come."""

    ops: list[Op] = field(default_factory=list)

    def embed(self, token_ids: object, table: _native.PackedWeight, scale: float) -> Symbol:
        out = Buffer(Axis(samples=False), table.shape[1])
        self.ops.append(Embed(table, scale, out))
        return Symbol(out, (out.width,))

    def linear(self, x: Symbol, weight: _native.PackedWeight, bias: Array | None = None) -> Symbol:
        rows, columns = weight.shape
        _same("linear", x.inner, (columns,))
        out = Buffer(x.buffer.axis, rows)
        self.ops.append(Linear(x.buffer, weight, bias, out))
        return Symbol(out, (rows,))

    def rms_norm(self, x: Symbol, weight: Array, eps: float) -> Symbol:
        _same("rms_norm", x.inner[-1:], tuple(weight.shape))
        out = Buffer(x.buffer.axis, x.buffer.width)
        self.ops.append(RmsNorm(x.buffer, HeadNorm(weight, eps), out))
        return Symbol(out, x.inner)

    def rope_and_store(
        self, q: Symbol, k: Symbol, v: Symbol, cos_sin: Array, rows: StepRows, kv: LayerKV
    ) -> Symbol:
        heads, dim = q.inner
        kv_shape = (kv.k.shape[1], dim)
        _same("rope_and_store", k.inner + v.inner, kv_shape + kv_shape)
        _same("rope_and_store", (cos_sin.shape[1], kv.k.shape[2]), (dim, dim))
        out = Buffer(q.buffer.axis, q.buffer.width)
        self.ops.append(
            RopeAndStore(q.buffer, k.buffer, v.buffer, cos_sin, rows.group, kv, heads, out)
        )
        return Symbol(out, q.inner)

    def attention(
        self, q: Symbol, rows: StepRows, kv: LayerKV, scale: float, window: int | None
    ) -> Symbol:
        heads, dim = q.inner
        _same("attention", (heads % kv.k.shape[1], kv.k.shape[2]), (0, dim))
        out = Buffer(q.buffer.axis, q.buffer.width)
        self.ops.append(Attend(q.buffer, rows.group, kv, heads, scale, window, out))
        return Symbol(out, (out.width,))

    def glu(self, gate: Symbol, up: Symbol, activation: Activation) -> Symbol:
        _same("glu", gate.inner, up.inner)
        out = Buffer(gate.buffer.axis, gate.buffer.width)
        self.ops.append(Glu(gate.buffer, up.buffer, activation, out))
        return Symbol(out, gate.inner)

    def add(self, x: Symbol, y: Symbol) -> Symbol:
        _same("add", x.inner, y.inner)
        out = Buffer(x.buffer.axis, x.buffer.width)
        self.ops.append(Add(x.buffer, y.buffer, out))
        return Symbol(out, x.inner)

    def take_rows(self, x: Symbol) -> Symbol:
        """The rows that the step samples from; stands for `Ops.rows`."""
        out = Buffer(Axis(samples=True), x.buffer.width)
        self.ops.append(TakeRows(x.buffer, out))
        return Symbol(out, x.inner)


def _same(op: str, got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if got != wanted:
        raise ValueError(f"{op} was called with rows of shape {got}, but needs {wanted}")
