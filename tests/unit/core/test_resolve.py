"""Options, model and machine → numbers; what contradicts itself is refused with both numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.core.config import (
    GIB,
    EngineConfig,
    Limits,
    Machine,
    ServeConfig,
    check_server,
    resolve,
)
from stoker.core.errors import ConfigError
from stoker.core.model import ModelConfig, RopeConfig

MACHINE = Machine(free_memory=8 * GIB, physical_cores=2)


def model(windows: tuple[int | None, ...] = (None,) * 30) -> ModelConfig:
    """Shapes of SmolLM2-135M."""
    return ModelConfig(
        family="llama",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_layers=len(windows),
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        rms_norm_eps=1e-5,
        max_position_embeddings=8192,
        rope=RopeConfig(theta=100_000.0),
        layer_windows=windows,
        attention_scale=0.125,
    )


def settle(machine: Machine = MACHINE, weights: int = GIB, **options: Any) -> Limits:
    return resolve(EngineConfig(**options), model(), weights, machine)


def test_defaults_come_from_model_and_machine() -> None:
    found = settle()
    assert (found.vocab_size, found.max_model_len, found.max_num_seqs) == (49152, 8192, 64)
    assert (found.max_num_batched_tokens, found.threads) == (128, 2)
    assert found.num_pages == 7 * GIB // 2 // found.kv.page_bytes


def test_pages_that_no_traffic_could_fill_are_not_taken() -> None:
    found = settle(Machine(free_memory=512 * GIB, physical_cores=2), max_num_seqs=2)
    assert found.num_pages == 2 * 8192 // 16


def test_explicit_numbers_win() -> None:
    found = settle(max_model_len=100, max_num_seqs=3, num_pages=77, threads=5)
    assert (found.max_model_len, found.num_pages, found.threads) == (100, 77, 5)
    assert settle(max_num_batched_tokens=100, max_num_seqs=3).max_num_batched_tokens == 100
    by_size = settle(kv_cache_gib=0.5)
    assert by_size.num_pages == GIB // 2 // by_size.kv.page_bytes


def test_the_budget_grows_to_hold_a_token_of_every_sequence() -> None:
    assert settle(max_num_seqs=600).max_num_batched_tokens == 600


def test_a_larger_model_takes_smaller_steps_and_more_cores_take_larger_ones() -> None:
    roomy = Machine(free_memory=512 * GIB, physical_cores=2)
    sizes = [GIB // 10, GIB // 2, GIB, 100 * GIB]
    budgets = [settle(roomy, weights=size).max_num_batched_tokens for size in sizes]
    assert budgets == [512, 256, 128, 64]
    assert settle(threads=4).max_num_batched_tokens == 256


@pytest.mark.parametrize(
    ("options", "param", "numbers"),
    [
        ({"max_model_len": 8193}, "max_model_len", ("8193", "8192")),
        ({"max_model_len": 0}, "max_model_len", ("0", "1")),
        ({"max_num_seqs": 0}, "max_num_seqs", ("0", "1")),
        ({"num_pages": 0}, "num_pages", ("0", "1")),
        ({"threads": -1}, "threads", ("-1", "1")),
        (
            {"max_num_seqs": 64, "max_num_batched_tokens": 63},
            "max_num_batched_tokens",
            ("63", "64"),
        ),
        ({"memory_fraction": 0.0}, "memory_fraction", ("0.0", "1")),
        ({"memory_fraction": 1.5}, "memory_fraction", ("1.5", "1")),
        ({"memory_fraction": float("nan")}, "memory_fraction", ("nan", "1")),
        ({"max_queue": -1}, "max_queue", ("-1", "0")),
        ({"kv_cache_gib": 0.0}, "kv_cache_gib", ("0.0", "0")),
        ({"kv_cache_gib": float("nan")}, "kv_cache_gib", ("nan", "0")),
        ({"kv_cache_gib": float("inf")}, "kv_cache_gib", ("inf", "0")),
        ({"kv_cache_gib": 7.5}, "kv_cache_gib", ("7.50", "7.00")),
        ({"num_pages": 10**9}, "num_pages", ("1000000000", "7.00")),
        ({"kv_cache_gib": 0.00001}, "kv_cache_gib", ("0.00", "1")),
    ],
)
def test_contradictions_are_named(
    options: dict[str, Any], param: str, numbers: tuple[str, str]
) -> None:
    with pytest.raises(ConfigError) as refusal:
        settle(**options)
    assert refusal.value.param == param
    assert all(number in refusal.value.message for number in numbers)


def test_weights_larger_than_memory_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"9\.00 GiB.*8\.00 GiB"):
        settle(weights=9 * GIB)


def test_fewer_pages_than_groups_are_refused() -> None:
    config = EngineConfig(num_pages=1)
    with pytest.raises(ConfigError, match=r"num_pages is 1.*at least 2"):
        resolve(config, model((None, 64)), GIB, MACHINE)


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": ""},
        {"max_body_mib": 0},
        {"drain_timeout_s": -1.0},
        {"drain_timeout_s": float("nan")},
        {"health_timeout_s": float("inf")},
    ],
)
def test_server_options_out_of_range_are_named(options: dict[str, Any]) -> None:
    check_server(ServeConfig())
    with pytest.raises(ConfigError) as refusal:
        check_server(ServeConfig(**options))
    assert [refusal.value.param] == list(options)


def test_every_option_has_a_doc_line() -> None:
    for config in (EngineConfig, ServeConfig):
        for field in config.__dataclass_fields__.values():
            assert field.metadata["doc"], field.name


def test_only_the_native_kernels_have_instruction_sets() -> None:
    settle(isa="vnni")
    with pytest.raises(ConfigError, match="isa is vnni, but kernels is reference") as refusal:
        settle(kernels="reference", isa="vnni")
    assert refusal.value.param == "isa"


def test_rotary_tables_that_do_not_fit_are_refused() -> None:
    endless = replace(model(), max_position_embeddings=2**24)
    small = Machine(free_memory=3 * GIB, physical_cores=2)
    with pytest.raises(ConfigError, match=r"need 4\.00 GiB .* max_model_len"):
        resolve(EngineConfig(), endless, GIB, small)
    assert resolve(EngineConfig(max_model_len=8192), endless, GIB, small).max_model_len == 8192
