"""linear and embed of the native set against the reference, and the promise of the house on both.

Tolerances stand in `tests/support/bounds.py`: float32 sums in another order, and for int4 and int8
activations rounded to int8 besides.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.weights.formats import Int4Weight, Int8Weight
from tests.support.bounds import assert_linear
from tests.support.kernels import (
    FLOAT_KINDS,
    INT_KINDS,
    ISAS,
    REFERENCE,
    Native,
    native,
    random_weight,
)

KINDS = FLOAT_KINDS + INT_KINDS
FLOAT_SHAPES = [(1, 1), (16, 35), (37, 64), (130, 257)]
INT_SHAPES = [(1, 32), (37, 64), (130, 288)]


def shapes(kind: str) -> list[tuple[int, int]]:
    return FLOAT_SHAPES if kind in FLOAT_KINDS else INT_SHAPES


def inputs(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", KINDS)
def test_linear_equals_the_reference(kind: str, isa: str) -> None:
    ops = native(isa)
    for n, k in shapes(kind):
        weight = random_weight(kind, n, k)
        packed, dense = ops.pack(weight), REFERENCE.pack(weight)
        assert packed.shape == (n, k)
        for rows in (1, 2, 3, 4, 5, 8, 15, 33, 49, 700 if isa != "portable" else 130):
            x, bias = inputs(rows, k, rows), inputs(1, n, 7)[0]
            assert_linear(kind, x, dense.data, bias, ops.linear(x, packed, bias))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", INT_KINDS)
def test_integer_linear_is_exact_for_activations_that_int8_holds(kind: str, isa: str) -> None:
    # Whole numbers up to 127 with a 127 in each group have scale 1: nothing is lost in rounding.
    ops, weight = native(isa), random_weight(kind, 50, 96)
    x = torch.randint(-127, 128, (9, 96)).float()
    x[:, ::32] = 127.0
    got = ops.linear(x, ops.pack(weight))
    torch.testing.assert_close(
        got, REFERENCE.linear(x, REFERENCE.pack(weight)), rtol=1e-5, atol=2e-3
    )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", KINDS)
def test_embed_reads_the_packed_rows_exactly(kind: str, isa: str) -> None:
    ops = native(isa)
    for n, k in shapes(kind):
        weight = random_weight(kind, n, k)
        ids = np.tile(np.arange(n, dtype=np.int32)[::-1], 2)
        got = ops.embed(ids, ops.pack(weight), 1.5)
        assert torch.equal(got, REFERENCE.embed(ids, REFERENCE.pack(weight), 1.5))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_row_depends_on_nothing_but_itself(isa: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    n = data.draw(st.integers(1, 70))
    k = data.draw(st.integers(1, 100)) if kind in FLOAT_KINDS else 32 * data.draw(st.integers(1, 5))
    rows = data.draw(st.integers(1, 110))
    cut = data.draw(st.integers(0, rows))
    x = inputs(rows, k, data.draw(st.integers(0, 100)))
    weight = random_weight(kind, n, k)

    def run(ops: Native, part: torch.Tensor) -> torch.Tensor:
        return ops.linear(part, ops.pack(weight))

    whole = run(native(isa, 1), x)
    assert torch.equal(whole, run(native(isa, 3), x))
    assert torch.equal(
        whole, torch.cat([run(native(isa, 2), x[:cut]), run(native(isa, 1), x[cut:])])
    )
    order = torch.tensor(data.draw(st.permutations(range(rows))))
    assert torch.equal(whole[order], run(native(isa, 2), x[order]))


@pytest.mark.parametrize("isa", ISAS)
def test_a_poisoned_row_stays_alone(isa: str) -> None:
    for kind in ("f32", "int4-f16", "int4-f16-minimum", "int8-f16-32"):
        ops = native(isa)
        packed = ops.pack(random_weight(kind, 40, 64))
        x = inputs(6, 64)
        clean = ops.linear(x, packed)
        x[2, 5] = float("nan")
        x[4, 9] = float("inf")
        poisoned = ops.linear(x, packed)
        keep = torch.tensor([0, 1, 3, 5])
        assert torch.equal(poisoned[keep], clean[keep])


@pytest.mark.parametrize("isa", ISAS)
def test_zero_and_tiny_groups_have_no_scale(isa: str) -> None:
    ops = native(isa)
    x = torch.zeros(2, 64)
    x[1, :32] = 1e-42
    for kind in ("int4-f16", "int4-f16-minimum", "int8-f16-16-minimum"):
        assert torch.equal(ops.linear(x, ops.pack(random_weight(kind, 20, 64))), torch.zeros(2, 20))


def test_large_matrices_are_shared_between_threads_without_a_trace() -> None:
    # Big enough that every thread gets several chunks.
    for kind in ("bf16", "int4-f16-minimum"):
        weight, x = random_weight(kind, 2048, 512), inputs(65, 512)
        one, two = native(ISAS[0], 1), native(ISAS[0], 2)
        packed_one, packed_two = one.pack(weight), two.pack(weight)
        wanted = one.linear(x, packed_one)
        for _ in range(20):
            assert torch.equal(two.linear(x, packed_two), wanted)
        assert torch.equal(two.linear(x[64:], packed_two), wanted[64:])


@pytest.mark.skipif("vnni" not in ISAS, reason="this CPU has no AVX-512 VNNI")
@pytest.mark.parametrize("kind", KINDS)
def test_vnni_gives_the_bits_of_avx2(kind: str) -> None:
    """With tiles of other sizes and products of another kind."""
    for n, k in ((50, 96), (16, 32), (33, 576)):
        weight, x = random_weight(kind, n, k), inputs(61, k)
        vnni, avx2 = (ops.linear(x, ops.pack(weight)) for ops in (native("vnni"), native("avx2")))
        assert torch.equal(vnni, avx2)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", INT_KINDS)
def test_extreme_codes_do_not_overflow(kind: str, isa: str) -> None:
    # The largest codes times the largest activations, of one sign and then of the other.
    ops, weight = native(isa), random_weight(kind, 18, 64)
    assert isinstance(weight, Int4Weight | Int8Weight)
    weight.q[::2], weight.q[1::2] = (255, 0) if isinstance(weight, Int4Weight) else (-128, 127)
    x = torch.full((6, 64), 127.0)
    x[::2] = -127.0
    torch.testing.assert_close(
        ops.linear(x, ops.pack(weight)),
        REFERENCE.linear(x, REFERENCE.pack(weight)),
        rtol=1e-5,
        atol=2e-3,
    )
