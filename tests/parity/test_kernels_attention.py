"""rope_and_store and attention of the native set against the reference, and the promise on both.

The pools hold NaN wherever nothing was written, so a single slot read too far shows in the result.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bounds import assert_attention
from tests.support.kernels import (
    ISAS,
    KV_TYPES,
    REFERENCE,
    Paged,
    empty_pages,
    filled_pages,
    native,
)

# Query heads, kv heads, head_dim.
HEADS = [(9, 3, 64), (4, 1, 80), (8, 8, 6), (14, 2, 12), (8, 1, 96), (3, 3, 128), (4, 2, 256)]
WINDOWS = [None, 1, 7, 40]
SPLIT = 256  # positions whose weights are summed together; see csrc/isa/attention.cpp


def everything(paged: Paged) -> list[tuple[int, int]]:
    return [(0, length) for length in paged.lengths]


def queries(rows: int, heads: int, dim: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(rows, heads, dim, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", KV_TYPES)
@pytest.mark.parametrize("shape", HEADS)
def test_rope_and_store_equals_the_reference(
    shape: tuple[int, int, int], dtype: str, isa: str
) -> None:
    heads, kv_heads, dim = shape
    mine, wanted = (empty_pages((40, 3), kv_heads, dim, KV_TYPES[dtype]) for _ in range(2))
    rows = mine.rows([(10, 40), (0, 3)])
    q = queries(33, heads, dim)
    k, v = queries(33, kv_heads, dim, 1) * 3, queries(33, kv_heads, dim, 2) * 3
    got = native(isa).rope_and_store(q, k, v, mine.cos_sin, rows, mine.kv)
    reference = REFERENCE.rope_and_store(q, k, v, wanted.cos_sin, rows, wanted.kv)
    torch.testing.assert_close(got, reference, rtol=0, atol=1e-6)
    same = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}
    torch.testing.assert_close(mine.kv.k, wanted.kv.k, **same)
    torch.testing.assert_close(mine.kv.v, wanted.kv.v, **same)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_numbers_are_rounded_to_the_kv_type_as_pytorch_does(dtype: str, isa: str) -> None:
    # Every exponent, ties, subnormals, overflow: v goes into its page unrotated.
    special = [0.0, -0.0, 65504.0, 65519.9, 65520.0, 1e-8, 6e-8, 5.9e-8, 6.1e-5, float("inf"), 1e38]
    bits = torch.arange(0x00000000, 0x7F800000, 0x00011800, dtype=torch.int32)
    values = torch.cat([torch.tensor(special), bits.view(torch.float32)])
    values = torch.cat([values, -values])
    values = values[: len(values) // 64 * 64]
    paged = empty_pages((len(values) // 64,), 1, 64, KV_TYPES[dtype])
    v = values.view(-1, 1, 64)
    rows = paged.rows(everything(paged))
    native(isa).rope_and_store(v, v, v, torch.zeros(len(v), 64), rows, paged.kv)
    stored = paged.kv.v[paged.page_table[0, : -(-len(v) // 16)].tolist()].flatten(0, 2)[: len(v)]
    assert torch.equal(stored.view(torch.int16), v[:, 0].to(KV_TYPES[dtype]).view(torch.int16))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", KV_TYPES)
@pytest.mark.parametrize("shape", HEADS)
@pytest.mark.parametrize("window", WINDOWS)
def test_attention_equals_the_reference(
    window: int | None, shape: tuple[int, int, int], dtype: str, isa: str
) -> None:
    heads, kv_heads, dim = shape
    paged = filled_pages((60, 5, 130), kv_heads, dim, KV_TYPES[dtype])
    rows = paged.rows([(20, 60), (0, 5), (129, 130)])
    q = queries(46, heads, dim)
    got = native(isa).attention(q, rows, paged.kv, dim**-0.5, window)
    wanted = REFERENCE.attention(q, rows, paged.kv, dim**-0.5, window)
    assert_attention(got, wanted, dtype, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("count", [2, 12, 40])  # splits are shared by threads up to some number
def test_attention_over_a_long_context(count: int, isa: str) -> None:
    paged = filled_pages((5000,), 1, 32, torch.bfloat16)
    rows, q = paged.rows([(5000 - count, 5000)]), queries(count, 4, 32)
    for window in (None, 1000):
        got = native(isa).attention(q, rows, paged.kv, 32**-0.5, window)
        wanted = REFERENCE.attention(q, rows, paged.kv, 32**-0.5, window)
        assert_attention(got, wanted, "bf16", isa)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_row_depends_on_nothing_but_its_own_keys(isa: str, data: st.DataObject) -> None:
    heads, kv_heads, dim = data.draw(st.sampled_from(HEADS))
    window = data.draw(st.none() | st.integers(1, 60))
    dtype = data.draw(st.sampled_from(list(KV_TYPES)))
    lengths = data.draw(st.lists(st.integers(1, 90), min_size=1, max_size=3))
    paged = filled_pages(lengths, kv_heads, dim, KV_TYPES[dtype])
    q = queries(sum(lengths), heads, dim)
    whole = native(isa, 1).attention(q, paged.rows(everything(paged)), paged.kv, 0.3, window)

    cuts = [data.draw(st.integers(0, length)) for length in lengths]
    ends = [data.draw(st.integers(cut, length)) for cut, length in zip(cuts, lengths, strict=True)]
    for ranges in (
        list(zip(cuts, ends, strict=True)),
        [(0, cut) for cut in cuts],
        [(length - 1, length) for length in lengths],
    ):
        index = paged.index(ranges)
        part = native(isa, 3).attention(q[index], paged.rows(ranges), paged.kv, 0.3, window)
        assert torch.equal(part, whole[index])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", KV_TYPES)
@pytest.mark.parametrize("window", [None, 30, SPLIT])
def test_prefill_and_decode_agree_at_the_edges_of_splits(
    window: int | None, dtype: str, isa: str
) -> None:
    for length in (SPLIT - 1, SPLIT, SPLIT + 1, 2 * SPLIT + 1):
        paged = filled_pages((length,), 2, 64, KV_TYPES[dtype])
        q = queries(length, 6, 64)
        whole = native(isa, 1).attention(q, paged.rows([(0, length)]), paged.kv, 0.1, window)
        assert_attention(
            whole,
            REFERENCE.attention(q, paged.rows([(0, length)]), paged.kv, 0.1, window),
            dtype,
            isa,
        )
        for begin in (length - 1, length - 2, length - 17, length - SPLIT + 5):
            rows = paged.rows([(begin, length)])
            part = native(isa, 2).attention(q[begin:], rows, paged.kv, 0.1, window)
            assert torch.equal(part, whole[begin:])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", KV_TYPES)
def test_few_units_of_a_long_sequence_are_shared_out(dtype: str, isa: str) -> None:
    # One kv head and a chunk of a few units: threads share splits, not units.
    paged = filled_pages((700,), 1, 64, KV_TYPES[dtype])
    q = queries(100, 4, 64)
    alone = native(isa, 1).attention(q, paged.rows([(600, 700)]), paged.kv, 0.1, None)
    for threads in (2, 5, 16):
        shared = native(isa, threads).attention(q, paged.rows([(600, 700)]), paged.kv, 0.1, None)
        assert torch.equal(shared, alone)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", KV_TYPES)
def test_large_scores_overflow_nothing(dtype: str, isa: str) -> None:
    paged = filled_pages((300,), 1, 16, KV_TYPES[dtype])
    got = native(isa).attention(queries(300, 2, 16), paged.rows([(0, 300)]), paged.kv, 1e4, None)
    assert torch.isfinite(got).all() and got.abs().max() < 10


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", KV_TYPES)
def test_a_later_token_that_is_nan_does_not_reach_back(dtype: str, isa: str) -> None:
    paged = filled_pages((30,), 2, 8, KV_TYPES[dtype])
    q, rows = queries(30, 4, 8), paged.rows([(0, 30)])
    clean = native(isa).attention(q, rows, paged.kv, 0.3, None)
    page, slot = int(paged.page_table[0, 1]), 21 % 16
    paged.kv.k[page, :, :, slot] = float("nan")
    paged.kv.v[page, :, slot, :] = float("nan")
    poisoned = native(isa).attention(q, rows, paged.kv, 0.3, None)
    assert torch.equal(poisoned[:21], clean[:21])
    assert poisoned[21:].isnan().all()


@pytest.mark.parametrize("isa", ISAS)
def test_stored_pages_do_not_depend_on_the_batch(isa: str) -> None:
    q, k, v = (queries(50, 3, 16, seed) for seed in range(3))
    at_once, step_by_step = (empty_pages((50,), 3, 16, torch.bfloat16) for _ in range(2))
    whole = native(isa, 2).rope_and_store(
        q, k, v, at_once.cos_sin, at_once.rows([(0, 50)]), at_once.kv
    )
    for t in range(50):
        rows = step_by_step.rows([(t, t + 1)])
        one = native(isa, 1).rope_and_store(
            q[t : t + 1], k[t : t + 1], v[t : t + 1], at_once.cos_sin, rows, step_by_step.kv
        )
        assert torch.equal(one[0], whole[t])
    for mine, theirs in ((at_once.kv.k, step_by_step.kv.k), (at_once.kv.v, step_by_step.kv.v)):
        assert torch.equal(mine.view(torch.int16), theirs.view(torch.int16))
