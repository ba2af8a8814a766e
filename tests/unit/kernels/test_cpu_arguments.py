"""The native set refuses what it cannot compute: a ValueError, never a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import psutil
import pytest
import torch

from stoker.kernels.ops import Draw, LayerKV, Rows
from stoker.weights.formats import FloatWeight, Int4Weight, Int8Weight
from tests.support.kernels import ISAS, filled_pages, native, random_weight

OPS = native(ISAS[0])
TABLE = OPS.pack(random_weight("int4-f16", 10, 64))
X = torch.zeros(3, 64)
PAGED = filled_pages((20,), 2, 8, torch.float32)
ROWS = PAGED.rows([(17, 20)])
Q = torch.zeros(3, 4, 8)
K = torch.zeros(3, 2, 8)


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def misaligned(*shape: int) -> np.ndarray:
    return np.zeros(4 * np.prod(shape) + 1, np.uint8)[1:].view(np.float32).reshape(shape)


def attend(rows: Rows = ROWS, kv: LayerKV = PAGED.kv, q: torch.Tensor = Q) -> None:
    OPS.attention(q, rows, kv, 1.0, None)


def store(rows: Rows = ROWS, k: torch.Tensor = K, cos_sin: torch.Tensor = PAGED.cos_sin) -> None:
    OPS.rope_and_store(Q, k, k, cos_sin, rows, PAGED.kv)


def draw(logits: torch.Tensor) -> None:
    OPS.sample(logits, [Draw(1.0, 1.0, 0.0, 0, 1, 0, 1)] * 2)


WRONG: dict[str, Callable[[], object]] = {
    "x is too narrow": lambda: OPS.linear(X[:, :32].contiguous(), TABLE),
    "x is not contiguous": lambda: OPS.linear(torch.zeros(3, 128)[:, ::2], TABLE),
    "x is not float32": lambda: OPS.linear(X.double(), TABLE),
    "x is not aligned": lambda: OPS.linear(misaligned(3, 64), TABLE),
    "bias is too short": lambda: OPS.linear(X, TABLE, torch.zeros(9)),
    "token id is too large": lambda: OPS.embed(i32(10), TABLE, 1.0),
    "token id is negative": lambda: OPS.embed(i32(-1), TABLE, 1.0),
    "token ids are int64": lambda: OPS.embed(np.array([1]), TABLE, 1.0),
    "norm weight is too short": lambda: OPS.rms_norm(X, torch.zeros(63), 1e-5),
    "gate and up differ": lambda: OPS.glu(X, X[:2], "silu"),
    "sums differ": lambda: OPS.add(X, X[:2]),
    "row number is too large": lambda: OPS.rows(X, i32(3)),
    "position is beyond the page table": lambda: attend(replace(ROWS, positions=i32(17, 18, 999))),
    "position is negative": lambda: attend(replace(ROWS, positions=i32(-1, 0, 1))),
    "page is missing": lambda: attend(replace(ROWS, positions=i32(17, 18, 32))),
    "page is beyond the pool": lambda: attend(replace(ROWS, page_table=i32(0, 99)[None])),
    "sequence is beyond the table": lambda: attend(replace(ROWS, row_seq=i32(0, 0, 1))),
    "heads are no multiple": lambda: attend(q=torch.zeros(3, 3, 8)),
    "head_dim differs from the pages": lambda: attend(q=torch.zeros(3, 4, 16)),
    "k and v have two types": lambda: attend(kv=LayerKV(PAGED.kv.k, PAGED.kv.v.half())),
    "k pages are not contiguous": lambda: attend(
        kv=LayerKV(PAGED.kv.v.transpose(2, 3), PAGED.kv.v)
    ),
    "k has too many heads": lambda: store(k=torch.zeros(3, 3, 8)),
    "position is beyond cos_sin": lambda: store(cos_sin=torch.zeros(19, 8)),
    "page to write is missing": lambda: store(replace(ROWS, positions=i32(30, 31, 32))),
    "logits have more rows than draws": lambda: draw(torch.zeros(3, 5)),
    "logits have no columns": lambda: draw(torch.zeros(2, 0)),
    "k is above the vocabulary": lambda: OPS.logprobs(torch.zeros(1, 5), i32(0), 6),
    "logprobs of a token beyond the vocabulary": lambda: OPS.logprobs(torch.zeros(1, 5), i32(5), 1),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_value_errors(case: str) -> None:
    with pytest.raises(ValueError, match=r"is|must|has|have"):
        WRONG[case]()


def test_wrong_weights_are_value_errors() -> None:
    scales = np.ones((4, 1), np.float16)
    for weight in (
        FloatWeight("f32", np.zeros(4, np.float32)),
        FloatWeight("f32", np.zeros((4, 4), np.float16)),
        Int4Weight(np.zeros((4, 24), np.uint8), scales, scales),
        Int4Weight(np.zeros((4, 32), np.uint8), scales, scales),
        Int4Weight(np.zeros((4, 16), np.uint8), scales, scales.astype(np.float32)),
        Int8Weight(np.zeros((4, 32), np.int8), scales, None, 16),
    ):
        with pytest.raises(ValueError, match=r"must|need"):
            OPS.pack(weight)


def test_empty_batches_are_fine() -> None:
    assert OPS.linear(torch.zeros(0, 64), TABLE).shape == (0, 10)
    assert OPS.embed(i32(), TABLE, 1.0).shape == (0, 64)
    assert OPS.rms_norm(torch.zeros(0, 64), torch.ones(64), 1e-5).shape == (0, 64)
    assert OPS.rows(X, i32()).shape == (0, 64)
    none = PAGED.rows([(0, 0)])
    assert OPS.attention(torch.zeros(0, 4, 8), none, PAGED.kv, 1.0, None).shape == (0, 32)


def test_a_strided_source_is_packed_as_its_values() -> None:
    weight = random_weight("bf16", 12, 40)
    assert isinstance(weight, FloatWeight)
    strided = FloatWeight("bf16", np.repeat(weight.data, 2, axis=1)[:, ::2])
    ids = i32(*range(12))
    assert torch.equal(
        OPS.embed(ids, OPS.pack(strided), 1.0), OPS.embed(ids, OPS.pack(weight), 1.0)
    )


def test_packed_sizes_are_those_of_the_format() -> None:
    assert OPS.pack(random_weight("f32", 32, 64)).nbytes == 32 * 64 * 4
    assert OPS.pack(random_weight("bf16", 32, 64)).nbytes == 32 * 64 * 2
    assert OPS.pack(random_weight("int4-f16", 32, 64)).nbytes == 32 * 64 * 9 // 16
    assert OPS.pack(random_weight("int4-f16-minimum", 32, 64)).nbytes == 32 * 64 * 5 // 8
    assert OPS.pack(random_weight("int8-f16-32", 32, 64)).nbytes == 32 * 64 * 17 // 16


def test_a_kv_pool_is_zero_and_takes_no_memory_until_touched() -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    pool = OPS.new_kv_pool(2**10, 2**18, "f32")  # a gibibyte
    assert pool.shape == (2**10, 2**18)
    assert float(pool[123, :100].abs().sum()) == 0.0
    assert process.memory_info().rss - before < 2**26
    assert OPS.new_kv_pool(2, 8, "bf16").dtype is torch.uint16
