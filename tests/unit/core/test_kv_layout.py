"""KV groups: which layers share a page table, and what a sequence needs at most."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.model import (
    PAGE_SIZE,
    KVGroup,
    KVLayout,
    ModelConfig,
    RopeConfig,
    kv_layout,
)
from stoker.memory.manager import MemoryManager
from tests.support.scheduling import layout


def model(windows: tuple[int | None, ...], **fields: object) -> ModelConfig:
    base = ModelConfig(
        family="llama",
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_layers=len(windows),
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        max_position_embeddings=1024,
        rope=RopeConfig(theta=10_000.0),
        layer_windows=windows,
        attention_scale=8**-0.5,
    )
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def test_a_model_of_one_kind_of_layer_is_one_group() -> None:
    groups = kv_layout(model((None,) * 30), "bf16").groups
    assert groups == (KVGroup(tuple(range(30)), None),)
    assert kv_layout(model((64,) * 4), "bf16").groups == (KVGroup((0, 1, 2, 3), 64),)


def test_gemma_3_270m_gets_six_groups_of_three() -> None:
    windows = tuple(None if (layer + 1) % 6 == 0 else 512 for layer in range(18))
    found = kv_layout(model(windows), "bf16")
    assert found.layers_per_page == 3
    assert [group.window for group in found.groups] == [512] * 5 + [None]
    assert found.groups[-1].layers == (5, 11, 17)


def test_page_bytes_count_keys_and_values_of_all_layers_of_a_page() -> None:
    found = kv_layout(model((None,) * 30), "bf16")
    assert found.page_bytes == 30 * 2 * 2 * 8 * PAGE_SIZE * 2
    assert kv_layout(model((None,) * 30), "f32").page_bytes == 2 * found.page_bytes


@given(st.lists(st.sampled_from([None, None, 16, 512]), min_size=1, max_size=40))
def test_every_layer_is_in_one_group_of_its_window_and_little_is_wasted(
    windows: list[int | None],
) -> None:
    found = kv_layout(model(tuple(windows)), "f16")
    layers = [layer for group in found.groups for layer in group.layers]
    assert sorted(layers) == list(range(len(windows)))
    for group in found.groups:
        assert {windows[layer] for layer in group.layers} == {group.window}
        assert 1 <= len(group.layers) <= found.layers_per_page
    assert len(found.groups) * found.layers_per_page <= 1.1 * len(windows)


@pytest.mark.parametrize(
    ("windows", "num_tokens", "chunk", "pages"),
    [
        ((None,), 1, 32, 1),
        ((None,), 17, 32, 2),
        ((None, None), 160, 32, 20),
        ((64,), 10_000, 32, 7),  # (64 + 32) / 16 and one because neither is aligned
        ((64,), 20, 32, 2),
    ],
)
def test_pages_needed(
    windows: tuple[int | None, ...], num_tokens: int, chunk: int, pages: int
) -> None:
    assert layout(*windows).pages_needed(num_tokens, chunk) == pages


@given(
    st.sampled_from([(None,), (16,), (33, 5, None), (1,), (20, None)]),
    st.integers(1, 200),
    st.lists(st.integers(1, 50), min_size=1, max_size=60),
)
def test_no_sequence_holds_more_than_pages_needed(
    windows: tuple[int | None, ...], num_tokens: int, chunks: list[int]
) -> None:
    kv: KVLayout = layout(*windows)
    needed = kv.pages_needed(num_tokens, max(chunks))
    memory, tokens = MemoryManager(kv, needed, False, "d"), [1] * num_tokens
    table, done = memory.open(tokens, None), 0
    for turn in range(num_tokens):
        if done == num_tokens:
            break
        done = min(num_tokens, done + chunks[turn % len(chunks)])
        assert memory.allocate(table, done)
        memory.commit(table, tokens, done)
