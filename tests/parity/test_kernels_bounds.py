"""Every native op within its stated bound (`tests.support.bounds`) of the reference: random shapes,
tails, one row to 700, arrays that begin at any float, every instruction set of this CPU.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stoker.core.model import Activation
from stoker.kernels.ops import Draw
from tests.support import bounds
from tests.support.kernels import (
    FLOAT_KINDS,
    INT_KINDS,
    ISAS,
    KV_TYPES,
    REFERENCE,
    empty_pages,
    filled_pages,
    native,
    random_weight,
)

EVERY_ISA = pytest.mark.parametrize("isa", ISAS)
ROWS = st.one_of(st.integers(1, 9), st.integers(10, 70), st.sampled_from([127, 256, 513, 700]))
HEAD_DIMS = [64, 80, 96, 128, 256]
GQA = st.sampled_from([(1, 1), (4, 4), (6, 2), (7, 1), (9, 3), (16, 2)])


def numbers(data: st.DataObject, *shape: int) -> torch.Tensor:
    """Normally distributed, beginning at any float of a line: kernels may not expect alignment."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000), label="seed"))
    count = int(torch.Size(shape).numel())
    offset = data.draw(st.integers(0, 15), label="offset")
    return torch.randn(count + offset, generator=generator)[offset:].view(shape)


def below(high: int, count: int) -> NDArray[np.int32]:
    """Ids or row numbers, among them the last."""
    return (np.arange(count, 0, -1, dtype=np.int32) * 7 - 8) % high


@EVERY_ISA
@pytest.mark.parametrize("kind", FLOAT_KINDS + INT_KINDS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_linear_and_embed(kind: str, isa: str, data: st.DataObject) -> None:
    rows, n = data.draw(ROWS, label="M"), data.draw(st.integers(1, 150), label="N")
    k = data.draw(st.integers(1, 600), label="K")
    if kind in INT_KINDS:
        k = -(-k // 32) * 32
    weight, ops = random_weight(kind, n, k, data.draw(st.integers(0, 99))), native(isa)
    packed, dense = ops.pack(weight), REFERENCE.pack(weight)
    x = numbers(data, rows, k)
    x *= torch.logspace(-3, 3, rows).unsqueeze(1)  # no row's size may matter to another
    bias = numbers(data, n) if data.draw(st.booleans(), label="bias") else None
    bounds.assert_linear(kind, x, dense.data, bias, ops.linear(x, packed, bias))
    ids = below(n, rows)
    assert torch.equal(ops.embed(ids, packed, 0.3), REFERENCE.embed(ids, dense, 0.3))


@EVERY_ISA
@pytest.mark.parametrize("kind", FLOAT_KINDS + INT_KINDS)
def test_linear_error_that_a_model_sees(kind: str, isa: str) -> None:
    ops, weight = native(isa), random_weight(kind, 200, 576)
    x = torch.randn(64, 576, generator=torch.Generator().manual_seed(1))
    wanted = REFERENCE.linear(x, REFERENCE.pack(weight))
    assert bounds.norm_error(ops.linear(x, ops.pack(weight)), wanted) < bounds.LINEAR[kind].norm


@EVERY_ISA
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_norm_glu_add_and_rows(isa: str, data: st.DataObject) -> None:
    rows, width, ops = data.draw(ROWS), data.draw(st.integers(1, 700)), native(isa)
    x, y = numbers(data, rows, width) * 4, numbers(data, rows, width) * 4
    weight = numbers(data, width)
    eps = data.draw(st.sampled_from([1e-6, 1e-5]))
    torch.testing.assert_close(
        ops.rms_norm(x, weight, eps),
        REFERENCE.rms_norm(x.double(), weight.double(), eps).float(),
        rtol=bounds.RMS_NORM,
        atol=0,
    )
    activations: list[Activation] = ["silu", "gelu_tanh"]
    for activation in activations:
        got, wanted = (kernels.glu(x, y, activation) for kernels in (ops, REFERENCE))
        slack = bounds.GLU * float((x * y).abs().max())
        torch.testing.assert_close(got, wanted, rtol=0, atol=slack)
    assert torch.equal(ops.add(x, y), x + y)
    index = below(rows, 5)
    assert torch.equal(ops.rows(x, index), REFERENCE.rows(x, index))


@EVERY_ISA
@pytest.mark.parametrize("dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", KV_TYPES)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_rope_and_stored_pages(dtype: str, dim: int, isa: str, data: st.DataObject) -> None:
    heads, kv_heads = data.draw(GQA)
    count = data.draw(ROWS)
    start = data.draw(st.integers(0, 40))
    mine, wanted = (empty_pages([start + count], kv_heads, dim, KV_TYPES[dtype]) for _ in range(2))
    rows = mine.rows([(start, start + count)])
    q, k, v = (numbers(data, count, h, dim) for h in (heads, kv_heads, kv_heads))
    got = native(isa).rope_and_store(q, k, v, mine.cos_sin, rows, mine.kv)
    reference = REFERENCE.rope_and_store(q, k, v, wanted.cos_sin, rows, wanted.kv)
    exactly = {"rtol": 0.0, "atol": bounds.ROPE, "equal_nan": True}
    torch.testing.assert_close(got, reference, **exactly)
    torch.testing.assert_close(mine.kv.k, wanted.kv.k, **exactly)
    torch.testing.assert_close(mine.kv.v, wanted.kv.v, **exactly)


@EVERY_ISA
@pytest.mark.parametrize("dim", HEAD_DIMS)
@pytest.mark.parametrize("dtype", KV_TYPES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_attention(dtype: str, dim: int, isa: str, data: st.DataObject) -> None:
    heads, kv_heads = data.draw(GQA)
    window = data.draw(st.none() | st.integers(1, 300))
    lengths = data.draw(
        st.lists(st.sampled_from([1, 15, 16, 17, 130, 300]), min_size=1, max_size=3)
    )
    starts = [data.draw(st.integers(0, length - 1)) for length in lengths]
    paged = filled_pages(lengths, kv_heads, dim, KV_TYPES[dtype])
    rows = paged.rows(list(zip(starts, lengths, strict=True)))
    q = numbers(data, len(rows.positions), heads, dim)
    bounds.assert_attention(
        native(isa).attention(q, rows, paged.kv, dim**-0.5, window),
        REFERENCE.attention(q, rows, paged.kv, dim**-0.5, window),
        dtype,
        isa,
    )


@EVERY_ISA
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_sampled_tokens_are_the_same(isa: str, data: st.DataObject) -> None:
    rows, vocab = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 3000))
    scores = numbers(data, rows, vocab) * data.draw(st.sampled_from([0.1, 3.0, 30.0]))
    if data.draw(st.booleans(), label="ties"):
        scores = scores.round()
    drawn = [
        Draw(
            temperature=data.draw(st.sampled_from([0.0, 0.3, 1.0, 1.7])),
            top_p=data.draw(st.sampled_from([1.0, 0.95, 0.4])),
            min_p=data.draw(st.sampled_from([0.0, 0.05])),
            top_k=data.draw(st.sampled_from([0, 1, 40])),
            seed=data.draw(st.integers(0, 2**63)),
            choice=0,
            position=i,
        )
        for i in range(rows)
    ]
    assert native(isa).sample(scores, drawn) == REFERENCE.sample(scores, drawn)


@EVERY_ISA
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_logprobs(isa: str, data: st.DataObject) -> None:
    rows, vocab = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 3000))
    scores = numbers(data, rows, vocab) * 5
    tokens = below(vocab, rows)
    top = min(vocab, data.draw(st.sampled_from([0, 1, 20])))
    got, wanted = (ops.logprobs(scores, tokens, top) for ops in (native(isa), REFERENCE))
    close = {"rtol": bounds.LOGPROBS, "atol": bounds.LOGPROBS}
    np.testing.assert_allclose(got[0], wanted[0], **close)
    assert np.array_equal(got[1], wanted[1])
    np.testing.assert_allclose(got[2], wanted[2], **close)
