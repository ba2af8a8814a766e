"""GGUF metadata → config, by architecture."""

import numpy as np
import pytest

from stoker.core.errors import CheckpointError
from stoker.core.model import RopeConfig
from stoker.weights.gguf_config import generation_defaults, model_config
from stoker.weights.rope_factors import llama3_factors


def metadata(arch, layers=12, **more):
    keys = {
        "context_length": 4096,
        "embedding_length": 640,
        "block_count": layers,
        "feed_forward_length": 2048,
        "attention.head_count": 4,
        "attention.head_count_kv": 1,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "vocab_size": 1000,
    }
    keys |= {key.replace("__", "."): value for key, value in more.items()}
    return {"general.architecture": arch} | {f"{arch}.{k}": v for k, v in keys.items()}


def read(values, factors=None):
    return model_config(values, "file", True, factors)


def test_gemma3_follows_llama_cpp():
    config = read(
        metadata(
            "gemma3",
            attention__key_length=256,
            attention__sliding_window=512,
            rope__freq_base=1e6,
            rope__scaling__type="linear",
            rope__scaling__factor=8.0,
        )
    )
    assert config.layer_windows == (*(512,) * 5, None) * 2
    assert config.rope == RopeConfig(theta=1e6, scaling="linear", factor=8.0)
    assert config.rope_local == RopeConfig(theta=10_000.0)
    assert config.attention_scale == 256**-0.5
    assert config.embedding_scale == 640**0.5
    assert config.activation == "gelu_tanh"


def test_gemma3_27b_scales_by_hidden_width_per_head():
    config = read(
        metadata("gemma3", 62, attention__key_length=128, attention__sliding_window=1024)
        | {"gemma3.embedding_length": 5376, "gemma3.attention.head_count": 32}
    )
    assert config.attention_scale == 168**-0.5


@pytest.mark.parametrize("pattern", [3, [True, True, False] * 4])
def test_window_pattern_in_the_file_wins(pattern):
    values = metadata(
        "gemma3", attention__sliding_window=512, attention__sliding_window_pattern=pattern
    )
    assert read(values).layer_windows == (512, 512, None) * 4


def test_window_without_a_pattern_is_on_every_layer():
    assert read(metadata("llama", attention__sliding_window=64)).layer_windows == (64,) * 12


def test_qwen3_head_dim_is_its_own():
    config = read(metadata("qwen3", attention__key_length=128, rope__freq_base=1e6))
    assert (config.family, config.head_dim, config.num_heads) == ("qwen3", 128, 4)
    assert config.rope.theta == 1e6


def test_per_layer_lists_of_one_value():
    values = metadata("qwen2") | {"qwen2.attention.head_count_kv": [2] * 12}
    assert read(values).num_kv_heads == 2
    values["qwen2.attention.head_count_kv"] = [2, 4] * 6
    with pytest.raises(CheckpointError, match="head_count_kv"):
        read(values)


def test_llama3_factors():
    factors = llama3_factors(5e5, 8.0, 8192, 160).astype(np.float32)
    config = read(metadata("llama", rope__freq_base=5e5), factors)
    assert config.rope == RopeConfig(
        theta=5e5,
        scaling="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position=8192,
    )
    assert read(metadata("llama"), np.ones(80, np.float32)).rope.scaling == "none"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (metadata("mamba"), "unknown architecture mamba; known are llama, qwen2, qwen3, gemma3"),
        ({}, "general.architecture is missing"),
        (metadata("llama", rope__scaling__type="yarn"), "'yarn' is not supported"),
        (metadata("llama", expert_count=8), "expert_count is not supported"),
        (metadata("gemma3", final_logit_softcapping=30.0), "final_logit_softcapping"),
        (metadata("llama", rope__dimension_count=80), "RoPE over a part"),
        (metadata("llama", block_count="x"), "block_count is 'x'"),
        (metadata("llama", attention__head_count_kv=3), "4 attention heads cannot share 3"),
        (metadata("llama") | {"tokenizer.ggml.tokens": 5}, "tokens is 5, not a list"),
        (
            metadata(
                "gemma3",
                attention__sliding_window=9,
                attention__sliding_window_pattern=[True, False],
            ),
            "names 2 layers of 12",
        ),
    ],
)
def test_errors(values, message):
    with pytest.raises(CheckpointError, match=message):
        read(values)


def test_ends_of_an_answer():
    values = {
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.eot_token_id": 4,
        "tokenizer.ggml.tokens": ["a", "</s>", "<|im_end|>", "<|eot_id|>", "x", "<end_of_turn>"],
        "tokenizer.ggml.token_type": [1, 3, 1, 3, 3, 4],
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
    }
    defaults = generation_defaults(values)
    assert defaults.eos_token_ids == (1, 4, 3, 5), "<|im_end|> as ordinary text ends nothing"
    assert (defaults.temperature, defaults.top_k, defaults.top_p) == (0.6, 20, 1.0)
