from __future__ import annotations

import numpy as np
import pytest
import torch

from stoker.core.model import KVGroup, KVLayout
from stoker.core.plan import SampleSpec, SeqStep, StepPlan
from stoker.core.request import SamplingParams
from stoker.kernels.reference import ReferenceOps
from stoker.runner.batch import build_inputs, last_rows
from stoker.runner.kv_cache import KVCache

LAYOUT = KVLayout(
    groups=(KVGroup((0, 2), None), KVGroup((1, 3), 32)),
    layers_per_page=2,
    num_kv_heads=2,
    head_dim=4,
    dtype="bf16",
)


@pytest.fixture
def cache() -> KVCache:
    return KVCache(ReferenceOps(), LAYOUT, num_pages=8)


def _seq(name: str, tokens: list[int], start: int, *tables: list[int], draws: bool) -> SeqStep:
    spec = SampleSpec(SamplingParams(), 0, [0] * (start + len(tokens)), 1)
    return SeqStep(name, tokens, start, tables, spec if draws else None)


PLAN = StepPlan(
    1,
    (
        _seq("a", [7, 8, 9], 15, [3, 1], [0, 2], draws=False),
        _seq("b", [5], 40, [4, 6, 5], [-1, 7, 2, 9, 9], draws=True),
        _seq("c", [1, 2], 0, [0], [1], draws=True),
    ),
)


def test_rows_say_where_each_token_stands(cache: KVCache) -> None:
    inputs = build_inputs(PLAN, cache)
    assert inputs.token_ids.tolist() == [7, 8, 9, 5, 1, 2]
    rows = inputs.layers[0].rows
    assert rows.positions.tolist() == [15, 16, 17, 40, 0, 1]
    assert rows.row_seq.tolist() == [0, 0, 0, 1, 2, 2]
    assert {a.dtype for a in (rows.positions, rows.row_seq, rows.page_table)} == {
        np.dtype(np.int32)
    }


def test_layers_of_a_group_share_its_page_table(cache: KVCache) -> None:
    layers = build_inputs(PLAN, cache).layers
    assert layers[0].rows is layers[2].rows and layers[1].rows is layers[3].rows
    assert layers[0].rows.page_table.tolist() == [[3, 1, -1], [4, 6, 5], [0, -1, -1]]
    # Pages allocated ahead of the step's tokens are of no interest to it.
    assert layers[1].rows.page_table.tolist() == [[0, 2, -1], [-1, 7, 2], [1, -1, -1]]


def test_last_rows_are_those_of_sequences_that_draw() -> None:
    assert last_rows(PLAN).tolist() == [3, 5]


def test_layers_lie_in_slots_of_the_same_pages(cache: KVCache) -> None:
    for layer, kv in enumerate(cache.layers):
        assert kv.k.shape == (8, 2, 4, 16) and kv.v.shape == (8, 2, 16, 4)
        assert kv.k.dtype == torch.bfloat16
        assert kv.k[0].is_contiguous() and kv.v[0].is_contiguous()
        kv.k.fill_(layer + 0.25)
        kv.v.fill_(layer + 0.5)
    # Layers 0 and 1 are in slot 0 of different groups: the same memory, by other pages.
    assert (cache.layers[0].k == 1.25).all() and (cache.layers[1].k == 1.25).all()
    assert (cache.layers[2].v == 3.5).all() and (cache.layers[3].k == 3.25).all()
