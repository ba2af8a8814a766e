"""Which ops a recorded model is left with; that their bits stay is tests/property's business."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from stoker.kernels import _native
from stoker.kernels.fuse import GatedProduct, Node, Prepare, Product, fuse, reads, writes
from stoker.kernels.ops import LayerKV
from stoker.kernels.record import Axis, Buffer, Embed, Recorder, RopeAndStore, StepRows, Symbol

I8, HALVES, F32 = _native.Code.i8, _native.Code.i8_halves, _native.Code.f32
WIDTH = 64


@dataclass(frozen=True)
class FakeWeight:
    """As much of a packed weight as recording looks at."""

    shape: tuple[int, int]
    code: _native.Code


def weight(code: _native.Code = I8, rows: int = WIDTH) -> Any:
    return FakeWeight((rows, WIDTH), code)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def x(recorder: Recorder) -> Symbol:
    return recorder.embed(None, weight(), 1.0)


def norm_weight(width: int = WIDTH) -> np.ndarray:
    return np.ones(width, np.float32)


def kinds(nodes: list[Node]) -> list[str]:
    return [type(node).__name__ for node in nodes]


def products(nodes: list[Node]) -> Iterator[Product]:
    return (node for node in nodes if isinstance(node, Product))


def in_order(nodes: list[Node]) -> bool:
    """Whether every buffer is filled before it is read, and only once."""
    filled: set[Buffer] = set()
    for node in nodes:
        if not set(reads(node)) <= filled or set(writes(node)) & filled:
            return False
        filled.update(writes(node))
    return True


def test_linears_of_one_normalised_row_become_one_product(recorder: Recorder, x: Symbol) -> None:
    row = recorder.rms_norm(x, norm_weight(), 1e-5)
    for code in (I8, HALVES, I8):
        recorder.linear(row, weight(code))
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "Product"] and in_order(nodes)
    _, prepare, product = nodes
    assert isinstance(prepare, Prepare) and set(prepare.out) == {I8, HALVES}
    assert isinstance(product, Product) and len(product.linears) == 3


def test_a_normalised_row_that_others_read_is_kept_in_float32(
    recorder: Recorder, x: Symbol
) -> None:
    row = recorder.rms_norm(x, norm_weight(), 1e-5)
    recorder.add(row, recorder.linear(row, weight()))
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "Product"] and in_order(nodes)
    assert isinstance(nodes[1], Prepare) and set(nodes[1].out) == {F32, I8}


def test_a_residual_is_added_where_the_product_writes(recorder: Recorder, x: Symbol) -> None:
    total = recorder.add(x, recorder.linear(x, weight()))
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "Product"] and in_order(nodes)
    (product,) = products(nodes)
    assert product.linears[0].residual is x.buffer and product.linears[0].out is total.buffer


def test_a_product_that_is_read_twice_keeps_its_add(recorder: Recorder, x: Symbol) -> None:
    branch = recorder.linear(x, weight())
    recorder.add(recorder.add(x, branch), branch)
    assert kinds(fuse(recorder.ops)) == ["Embed", "Prepare", "Product", "Add", "Add"]


def test_a_residual_made_after_the_product_keeps_its_add(recorder: Recorder, x: Symbol) -> None:
    branch = recorder.linear(x, weight())
    later = recorder.rms_norm(x, norm_weight(), 1e-5)
    recorder.add(later, branch)
    nodes = fuse(recorder.ops)
    assert kinds(nodes)[-1] == "Add" and in_order(nodes)


def test_two_linears_over_the_sum_of_each_other_stay_apart(recorder: Recorder, x: Symbol) -> None:
    """The second one's residual comes from the first one: it cannot run with it."""
    first = recorder.linear(x, weight())
    recorder.add(first, recorder.linear(x, weight()))
    nodes = fuse(recorder.ops)
    assert len(list(products(nodes))) == 2 and in_order(nodes)


def test_float_weights_read_the_row_itself(recorder: Recorder, x: Symbol) -> None:
    recorder.linear(x, weight(F32))
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Product"]
    assert isinstance(nodes[1], Product) and nodes[1].x == {F32: x.buffer}


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_a_gate_is_rounded_as_it_is_made(recorder: Recorder, x: Symbol, activation: Any) -> None:
    gate, up = recorder.linear(x, weight()), recorder.linear(x, weight())
    recorder.linear(recorder.glu(gate, up, activation), weight())
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "GatedProduct", "Product"] and in_order(nodes)
    gated = nodes[2]
    assert isinstance(gated, GatedProduct) and gated.activation == activation
    assert (gated.gate.out, gated.up.out) == (gate.buffer, up.buffer) and gated.out.code is I8


def test_linears_beside_a_gate_stay_a_product(recorder: Recorder, x: Symbol) -> None:
    gate, up, other = (recorder.linear(x, weight(code)) for code in (I8, I8, HALVES))
    recorder.linear(recorder.glu(gate, up, "silu"), weight())
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "Product", "GatedProduct", "Product"]
    product = next(products(nodes))
    assert in_order(nodes) and set(product.x) == {HALVES}
    assert [linear.out for linear in product.linears] == [other.buffer]


@pytest.mark.parametrize("down", [F32, HALVES])
def test_a_gate_that_is_wanted_in_another_code_is_made_apart(
    recorder: Recorder, x: Symbol, down: Any
) -> None:
    gate, up = recorder.linear(x, weight()), recorder.linear(x, weight())
    recorder.linear(recorder.glu(gate, up, "silu"), weight(down))
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "Product", "Prepare", "Product"]
    assert isinstance(nodes[3], Prepare) and nodes[3].y is up.buffer and set(nodes[3].out) == {down}


def test_a_gate_that_others_read_is_made_apart(recorder: Recorder, x: Symbol) -> None:
    gate, up = recorder.linear(x, weight()), recorder.linear(x, weight())
    recorder.linear(recorder.glu(gate, up, "silu"), weight())
    recorder.add(up, x)
    nodes = fuse(recorder.ops)
    assert "GatedProduct" not in kinds(nodes) and in_order(nodes)


def test_head_norms_go_into_the_rotation(recorder: Recorder, x: Symbol) -> None:
    kv = LayerKV(np.zeros((1, 2, 16, 16)), np.zeros((1, 2, 16, 16)))
    heads = (x.buffer.axis, -1, 16)
    q = recorder.linear(x, weight()).reshape(heads)
    k, v = (recorder.linear(x, weight(rows=32)).reshape(heads) for _ in range(2))
    q, k = (recorder.rms_norm(head, norm_weight(16), 1e-6) for head in (q, k))
    recorder.rope_and_store(q, k, v, np.zeros((8, 16), np.float32), StepRows(0), kv)
    nodes = fuse(recorder.ops)
    assert kinds(nodes) == ["Embed", "Prepare", "Product", "RopeAndStore"]
    assert isinstance(nodes[3], RopeAndStore)
    assert nodes[3].q_norm is not None and nodes[3].k_norm is not None


def test_a_norm_over_heads_counts_its_rows(recorder: Recorder, x: Symbol) -> None:
    recorder.rms_norm(x.reshape((x.buffer.axis, 4, 16)), norm_weight(16), 1e-6)
    node = fuse(recorder.ops)[1]
    assert isinstance(node, Prepare) and (node.axis, node.width) == (Axis(False, 4), 16)


def test_a_reshape_keeps_the_numbers(x: Symbol) -> None:
    assert x.reshape((x.buffer.axis, -1, 8)).inner == (8, 8)
    with pytest.raises(ValueError, match="cannot be seen"):
        x.reshape((x.buffer.axis, -1, 7))
    with pytest.raises(ValueError, match="cannot be seen"):
        x.reshape((3, 64))


def test_wrong_widths_are_refused_while_recording(recorder: Recorder, x: Symbol) -> None:
    narrow = recorder.linear(x, weight(rows=32))
    for call in (
        lambda: recorder.linear(narrow, weight()),
        lambda: recorder.add(x, narrow),
        lambda: recorder.glu(x, narrow, "silu"),
        lambda: recorder.rms_norm(x, norm_weight(8), 1e-5),
    ):
        with pytest.raises(ValueError, match="but needs"):
            call()


def test_rows_that_are_sampled_are_an_axis_of_their_own(recorder: Recorder, x: Symbol) -> None:
    assert isinstance(recorder.ops[0], Embed)
    assert recorder.linear(recorder.take_rows(x), weight()).buffer.axis == Axis(samples=True)
