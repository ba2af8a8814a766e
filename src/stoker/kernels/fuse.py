"""Makes a recorded list of ops shorter without changing a bit of what it computes.

    linear → add                       the product adds the residual where it writes
    rms_norm of q or k → rope          heads are normalised where they are rotated
    linears that read the same rows    one product over the panels of all of them
    rms_norm or glu → linears          one `Prepare`: the row is made and rounded to the codes that
                                       its readers ask for, once
    anything else → linears            the same `Prepare`, of the rows as they are
    two linears → glu → codes          one `GatedProduct`, which keeps what it gates in cache

These are rules about neighbours in the list, so a model needs to know nothing of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.core.model import Activation
from stoker.kernels import _native
from stoker.kernels.record import (
    Add,
    Attend,
    Axis,
    Buffer,
    Embed,
    Glu,
    HeadNorm,
    Linear,
    Op,
    RmsNorm,
    RopeAndStore,
    TakeRows,
)


@dataclass(frozen=True, slots=True, eq=False)
class Prepare:
    """Rows from x (and y), each made once and written in every code of `out`."""

    source: _native.Source
    x: Buffer
    y: Buffer | None
    norm: HeadNorm | None
    axis: Axis
    width: int
    out: Mapping[_native.Code, Buffer]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """Linears over the same rows, which `x` holds in every code that one of them reads."""

    x: Mapping[_native.Code, Buffer]
    linears: tuple[Linear, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GatedProduct:
    """activation(gate) * up of two linears over the same rows, written as int8 codes."""

    x: Mapping[_native.Code, Buffer]
    gate: Linear
    up: Linear
    activation: Activation
    out: Buffer


Node = Embed | TakeRows | Prepare | Product | GatedProduct | Add | RopeAndStore | Attend


def fuse(ops: Sequence[Op]) -> list[Node]:
    """Nodes that compute what `ops` do, in an order in which each has its inputs."""
    return _gate_in_products(_share_rows(_norm_heads(_add_residuals(list(ops)))))


def reads(op: Op | Node) -> tuple[Buffer, ...]:
    """The buffers that an op reads."""
    match op:
        case Embed():
            return ()
        case Linear():
            return (op.x,) if op.residual is None else (op.x, op.residual)
        case Product():
            return (*op.x.values(), *(x.residual for x in op.linears if x.residual is not None))
        case GatedProduct():
            return tuple(op.x.values())
        case Prepare():
            return (op.x,) if op.y is None else (op.x, op.y)
        case Glu():
            return (op.gate, op.up)
        case Add():
            return (op.x, op.y)
        case RopeAndStore():
            return (op.q, op.k, op.v)
        case RmsNorm() | TakeRows():
            return (op.x,)
        case Attend():
            return (op.q,)


def writes(op: Op | Node) -> tuple[Buffer, ...]:
    """The buffers that an op fills."""
    match op:
        case Prepare():
            return tuple(op.out.values())
        case Product():
            return tuple(linear.out for linear in op.linears)
        case _:
            return (op.out,)


def _makers(ops: Iterable[Op | Node]) -> dict[Buffer, int]:
    """Which op fills a buffer."""
    return {buffer: i for i, op in enumerate(ops) for buffer in writes(op)}


def _uses(ops: Iterable[Op | Node]) -> dict[Buffer, int]:
    """How often a buffer is read."""
    count: dict[Buffer, int] = defaultdict(int)
    for op in ops:
        for buffer in reads(op):
            count[buffer] += 1
    return count


def _add_residuals(ops: list[Op]) -> list[Op]:
    made, uses = _makers(ops), _uses(ops)
    kept: dict[int, Op] = dict(enumerate(ops))
    for i, op in enumerate(ops):
        if not isinstance(op, Add):
            continue
        for branch, residual in ((op.y, op.x), (op.x, op.y)):
            at = made[branch]
            linear = kept[at]
            if (
                isinstance(linear, Linear)
                and linear.residual is None
                and uses[branch] == 1
                and made[residual] < at
            ):
                kept[at] = replace(linear, residual=residual, out=op.out)
                made[op.out] = at
                del kept[i]
                break
    return list(kept.values())


def _norm_heads(ops: list[Op]) -> list[Op]:
    made, uses = _makers(ops), _uses(ops)
    gone = set()

    def before(buffer: Buffer) -> tuple[Buffer, HeadNorm | None]:
        norm = ops[made[buffer]]
        if not isinstance(norm, RmsNorm) or uses[buffer] > 1:
            return buffer, None
        gone.add(norm)
        return norm.x, norm.norm

    fused: list[Op] = []
    for op in ops:
        if isinstance(op, RopeAndStore):
            (q, q_norm), (k, k_norm) = before(op.q), before(op.k)
            fused.append(replace(op, q=q, k=k, q_norm=q_norm, k_norm=k_norm))
        else:
            fused.append(op)
    return [op for op in fused if op not in gone]


def _share_rows(ops: list[Op]) -> list[Node]:
    made, uses = _makers(ops), _uses(ops)
    readers: dict[Buffer, list[Linear]] = defaultdict(list)
    for op in ops:
        if isinstance(op, Linear):
            readers[op.x].append(op)
    nodes: list[Node] = []
    rows: dict[Buffer, dict[_native.Code, Buffer]] = {}
    done: set[Linear] = set()
    for i, op in enumerate(ops):
        if isinstance(op, RmsNorm | Glu):
            prepared = _prepare(op, readers[op.out], uses[op.out])
            rows[op.out] = dict(prepared.out)
            nodes.append(prepared)
        elif not isinstance(op, Linear):
            nodes.append(op)
        elif op not in done:
            together = [
                x
                for x in readers[op.x]
                if x not in done and (x.residual is None or made[x.residual] < i)
            ]
            if op.x not in rows:
                rows[op.x] = _round(op.x, readers[op.x], nodes)
            done.update(together)
            nodes.append(
                Product(
                    {x.weight.code: rows[op.x][x.weight.code] for x in together}, tuple(together)
                )
            )
    return nodes


def _prepare(op: RmsNorm | Glu, readers: Sequence[Linear], uses: int) -> Prepare:
    codes = {linear.weight.code for linear in readers}
    if uses > len(readers) or not readers:
        codes.add(_native.Code.f32)
    out = {
        code: op.out if code is _native.Code.f32 else replace(op.out, code=code) for code in codes
    }
    axis, width = op.out.axis, op.out.width
    if isinstance(op, Glu):
        source = _native.Source.silu_glu if op.activation == "silu" else _native.Source.gelu_glu
        return Prepare(source, op.gate, op.up, None, axis, width, out)
    size = op.norm.weight.shape[0]
    if size != width:  # several heads a row
        axis, width = Axis(axis.samples, axis.times * (width // size)), size
    return Prepare(_native.Source.rms_norm, op.x, None, op.norm, axis, width, out)


def _round(x: Buffer, readers: Sequence[Linear], nodes: list[Node]) -> dict[_native.Code, Buffer]:
    """Rows that are there in float32, in the other codes too."""
    codes = {linear.weight.code for linear in readers} - {_native.Code.f32}
    out = {code: replace(x, code=code) for code in codes}
    if out:
        nodes.append(Prepare(_native.Source.rows, x, None, None, x.axis, x.width, out))
    return {_native.Code.f32: x, **out}


def _gate_in_products(nodes: list[Node]) -> list[Node]:
    made, uses = _makers(nodes), _uses(nodes)
    kept: dict[int, Node] = dict(enumerate(nodes))
    for i, node in enumerate(nodes):
        if not isinstance(node, Prepare) or node.y is None or set(node.out) != {_native.Code.i8}:
            continue
        product = kept[made[node.x]]
        if not isinstance(product, Product):
            continue
        linears = {linear.out: linear for linear in product.linears}
        gate, up = linears.pop(node.x, None), linears.pop(node.y, None)
        pair = [x for x in (gate, up) if x is not None and x.residual is None and uses[x.out] == 1]
        if gate is None or up is None or len(pair) < 2:
            continue
        activation: Activation = "silu" if node.source is _native.Source.silu_glu else "gelu_tanh"
        kept[i] = GatedProduct(
            _codes(product, pair), gate, up, activation, node.out[_native.Code.i8]
        )
        if linears:
            rest = tuple(linears.values())
            kept[made[node.x]] = Product(_codes(product, rest), rest)
        else:
            del kept[made[node.x]]
    return list(kept.values())


def _codes(product: Product, linears: Sequence[Linear]) -> dict[_native.Code, Buffer]:
    """The rows of a product in the codes that some of its linears read."""
    return {linear.weight.code: product.x[linear.weight.code] for linear in linears}
