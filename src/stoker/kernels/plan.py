"""A recorded list of ops as a native plan: memory laid out, every address known.

Running it is one call per step (`csrc/plan`), in which no Python runs. It must not know of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.kernels import _native, memory
from stoker.kernels.arena import Life, place
from stoker.kernels.cpu import CpuOps, checked_vector, layer_kv
from stoker.kernels.fuse import GatedProduct, Node, Prepare, Product, fuse, reads, writes
from stoker.kernels.record import (
    Add,
    Attend,
    Buffer,
    Embed,
    HeadNorm,
    Linear,
    Op,
    RopeAndStore,
    Symbol,
    TakeRows,
)

_CODES = (_native.Code.f32, _native.Code.i8, _native.Code.i8_halves)


class CompiledPlan:
    """Recorded ops that run on the threads and the instruction set of `ops`.

    max_tokens, max_samples: the largest step. result: the array that is wanted of a step; keep:
    others that `array` can show after it. Holds on to every weight and array that the ops name.

    Raises:
        ValueError: an array is not what the kernels need.
    """

    def __init__(
        self,
        ops: CpuOps,
        recorded: Sequence[Op],
        result: Symbol,
        max_tokens: int,
        max_samples: int,
        keep: Sequence[Symbol] = (),
    ) -> None:
        self._keep = list(recorded)
        self._max_tokens, self._max_samples = max_tokens, max_samples
        self._native = ops.new_plan()
        nodes = fuse(recorded)
        kept = [symbol.buffer for symbol in (result, *keep)]
        self._memory, self._at = _lay_out(nodes, kept, max_tokens, max_samples)
        for node in nodes:
            self._emit(node)
        whole = self.array(result)
        # Views of each size, made once: in a step, Python finds cold caches.
        self._results = [whole[:count] for count in range(max_samples + 1)]

    def run(self, step: _native.Step) -> NDArray[np.float32]:
        """Compute a step; the result's rows are valid until the next run.

        Raises:
            ValueError: an id, position or page of the step is out of range.
        """
        self._native.run(step)
        return self._results[step.num_samples]

    def array(self, symbol: Symbol) -> NDArray[np.float32]:
        """The result or an array of `keep`, with a row for each of the largest step: those of the
        last run come first, and are valid until the next."""
        buffer = symbol.buffer
        rows = self._max_samples if buffer.axis.samples else self._max_tokens
        first = self._at[buffer] - self._memory.ctypes.data
        flat = self._memory[first : first + 4 * rows * buffer.width].view(np.float32)
        return flat.reshape(rows, buffer.width)

    def _emit(self, node: Node) -> None:
        at, plan = self._at, self._native
        match node:
            case Embed():
                plan.embed(node.table, node.scale, at[node.out])
            case TakeRows():
                plan.take_rows(at[node.x], node.x.width, at[node.out])
            case Add():
                axis = node.out.axis
                x, y, out = at[node.x], at[node.y], at[node.out]
                plan.add(axis.samples, axis.times, x, y, node.out.width, out)
            case Prepare():
                self._emit_prepare(node)
            case Product():
                self._emit_product(node)
            case GatedProduct():
                self._emit_gated(node)
            case RopeAndStore():
                self._emit_rope(node)
            case Attend():
                kv = layer_kv(node.kv, node.kv.k.shape[2])
                window = node.window or 0
                q, out = at[node.q], at[node.out]
                plan.attention(node.group, q, kv, node.heads, node.scale, window, out)

    def _emit_prepare(self, node: Prepare) -> None:
        weight, eps = _norm(node.norm, node.width)
        y = 0 if node.y is None else self._at[node.y]
        axis = node.axis
        self._native.prepare(
            axis.samples,
            axis.times,
            node.source,
            self._at[node.x],
            y,
            weight,
            eps,
            node.width,
            self._operand(node.out),
        )

    def _emit_product(self, node: Product) -> None:
        axis = node.linears[0].out.axis
        parts = [self._part(linear, self._at[linear.out]) for linear in node.linears]
        width = node.linears[0].x.width
        self._native.product(axis.samples, axis.times, width, self._operand(node.x), parts)

    def _emit_gated(self, node: GatedProduct) -> None:
        axis = node.out.axis
        self._native.gated(
            axis.samples,
            axis.times,
            node.gate.x.width,
            self._operand(node.x),
            self._part(node.gate, 0),
            self._part(node.up, 0),
            node.activation == "gelu_tanh",
            self._at[node.out],
        )

    def _part(self, linear: Linear, out: int) -> tuple[_native.PackedWeight, int, int, int]:
        bias = 0 if linear.bias is None else checked_vector(linear.bias, linear.out.width)
        residual = 0 if linear.residual is None else self._at[linear.residual]
        return linear.weight, bias, residual, out

    def _emit_rope(self, node: RopeAndStore) -> None:
        dim = node.kv.k.shape[2]
        q_norm, q_eps = _norm(node.q_norm, dim)
        k_norm, k_eps = _norm(node.k_norm, dim)
        self._native.rope_and_store(
            node.group,
            self._at[node.q],
            self._at[node.k],
            self._at[node.v],
            checked_vector(node.cos_sin.reshape(-1), node.cos_sin.size),
            node.cos_sin.shape[0],
            layer_kv(node.kv, dim),
            node.heads,
            q_norm,
            k_norm,
            q_eps,
            k_eps,
            self._at[node.out],
        )

    def _operand(self, rows: Mapping[_native.Code, Buffer]) -> tuple[int, int, int]:
        f32, i8, i8_halves = (self._at[rows[c]] if c in rows else 0 for c in _CODES)
        return f32, i8, i8_halves


def _norm(norm: HeadNorm | None, width: int) -> tuple[int, float]:
    return (0, 0.0) if norm is None else (checked_vector(norm.weight, width), norm.eps)


def _lay_out(
    nodes: Sequence[Node], kept: Sequence[Buffer], max_tokens: int, max_samples: int
) -> tuple[np.ndarray, dict[Buffer, int]]:
    """Memory for every buffer, and the address of each; those of `kept` outlive the last node."""
    start: dict[Buffer, int] = {}
    end: dict[Buffer, int] = {}
    for i, node in enumerate(nodes):
        for buffer in writes(node):
            start[buffer] = end[buffer] = i
        for buffer in reads(node):
            end[buffer] = i
    end |= dict.fromkeys(kept, len(nodes))

    def size(buffer: Buffer) -> int:
        rows = (max_samples if buffer.axis.samples else max_tokens) * buffer.axis.times
        return _native.operand_bytes(buffer.code, rows, buffer.width)

    lives = [Life(start[buffer], end[buffer], size(buffer)) for buffer in start]
    offsets, total = place(lives)
    # The system commits this memory when it is first written, so room for large steps is free.
    arena = memory.zeros(total)
    first = arena.ctypes.data
    return arena, {b: first + offset for b, offset in zip(start, offsets, strict=True)}
