"""config.json → ModelConfig, in the old and the new form, against transformers' own reading."""

import pytest

from stoker.core.errors import CheckpointError
from stoker.core.model import RopeConfig
from stoker.weights.hf_config import generation_defaults, model_config

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
}


def read(architecture, **more):
    return model_config({"architectures": [architecture], **SIZES, **more}, "config.json")


LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA3_ROPE = RopeConfig(
    theta=5e5,
    scaling="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position=8192,
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, RopeConfig(theta=10_000.0)),
        ({"rope_theta": 5e5}, RopeConfig(theta=5e5)),
        ({"rope_theta": 5e5, "rope_scaling": None}, RopeConfig(theta=5e5)),
        ({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3"} | LLAMA3}, LLAMA3_ROPE),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5} | LLAMA3},
            LLAMA3_ROPE,
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            RopeConfig(theta=10_000.0, scaling="linear", factor=2.0),
        ),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, RopeConfig(theta=7.0)),
    ],
)
def test_rope_in_both_forms(settings, expected):
    assert read("LlamaForCausalLM", **settings).rope == expected


def test_llama_defaults():
    config = read("LlamaForCausalLM")
    assert (config.family, config.head_dim, config.attention_scale) == ("llama", 16, 0.25)
    assert not config.tie_word_embeddings
    assert config.layer_windows == (None,) * 4
    assert config.embedding_scale == 1.0


@pytest.mark.parametrize(("stated", "window"), [({}, 4096), ({"sliding_window": 8}, 8)])
def test_mistral_window_is_on_every_layer(stated, window):
    assert read("MistralForCausalLM", **stated).layer_windows == (window,) * 4


def test_mistral_null_window_is_none():
    assert read("MistralForCausalLM", sliding_window=None).layer_windows == (None,) * 4


@pytest.mark.parametrize(
    ("settings", "windows"),
    [
        ({"sliding_window": 8, "use_sliding_window": False}, (None,) * 4),
        ({"sliding_window": 8}, (None,) * 4),
        (
            {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2},
            (None, None, 8, 8),
        ),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 0}, (8,) * 4),
        (
            {
                "sliding_window": 8,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
            },
            (8, None, 8, None),
        ),
    ],
)
@pytest.mark.parametrize("architecture", ["Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_qwen_windows(architecture, settings, windows):
    assert read(architecture, **settings).layer_windows == windows


def test_qwen3_head_dim_default():
    assert read("Qwen3ForCausalLM").head_dim == 128
    assert read("Qwen2ForCausalLM").head_dim == 16


def test_gemma3_old_form():
    config = read(
        "Gemma3ForCausalLM",
        num_hidden_layers=7,
        head_dim=32,
        query_pre_attn_scalar=168,
        sliding_window=16,
        sliding_window_pattern=3,
        rope_theta=1e6,
        rope_local_base_freq=5e3,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    )
    assert config.layer_windows == (16, 16, None, 16, 16, None, 16)
    assert config.attention_scale == 168**-0.5
    assert config.embedding_scale == 8.0
    assert config.rope == RopeConfig(theta=1e6, scaling="linear", factor=8.0)
    assert config.rope_local == RopeConfig(theta=5e3)
    assert config.activation == "gelu_tanh"
    assert config.tie_word_embeddings


def test_gemma3_new_form():
    config = read(
        "Gemma3ForCausalLM",
        head_dim=32,
        sliding_window=16,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 3e4},
        },
    )
    assert config.layer_windows == (16, None, 16, None)
    assert config.rope == RopeConfig(theta=2e6, scaling="linear", factor=8.0)
    assert config.rope_local == RopeConfig(theta=3e4)
    assert config.attention_scale == 1 / 16, "query_pre_attn_scalar is 256 unless stated"


def test_gemma3_with_eyes_and_nearly_empty_text_config():
    """As google/gemma-3-4b-it ships: what equals a default is left out."""
    config = model_config(
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "text_config": {
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "num_hidden_layers": 34,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                "sliding_window": 1024,
            },
        },
        "config.json",
    )
    assert (config.vocab_size, config.num_heads, config.num_kv_heads) == (262_208, 8, 4)
    assert (config.head_dim, config.max_position_embeddings) == (256, 131_072)
    assert config.layer_windows[:7] == (1024,) * 5 + (None, 1024)
    assert config.rope == RopeConfig(theta=1e6, scaling="linear", factor=8.0)
    assert config.rope_local == RopeConfig(theta=10_000.0)


def test_model_type_stands_in_for_architectures():
    assert model_config({"model_type": "qwen3", **SIZES}, "config.json").family == "qwen3"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "unknown architecture MambaForCausalLM; known"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised with 'gptq'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "scaling 'yarn' is not supported"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "'dynamic' is not supported"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "'longrope' is not supported"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"hidden_act": "relu"}, "activation 'relu' is not supported"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"hidden_size": "64"}, "hidden_size is '64', not a positive whole number"),
        ({"num_key_value_heads": 3}, "4 attention heads cannot share 3 KV heads"),
        ({"rope_theta": float("nan")}, "rope_theta is nan"),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear', not an object"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes', not true or false"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        read("LlamaForCausalLM", **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "feature", ["attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"]
)
def test_gemma3_features_that_are_refused(feature):
    with pytest.raises(CheckpointError, match=feature):
        read("Gemma3ForCausalLM", **{feature: 30.0})


def test_layer_types_must_fit():
    with pytest.raises(CheckpointError, match="layer_types is 5, not a list"):
        read("Gemma3ForCausalLM", layer_types=5)
    with pytest.raises(CheckpointError, match=r"2 layers of 4 and unknown kinds \['chunked'\]"):
        read("Gemma3ForCausalLM", layer_types=["chunked", "full_attention"])


@pytest.mark.parametrize(
    ("config", "generation", "tokenizer", "ends"),
    [
        ({"eos_token_id": 2}, {}, [], (2,)),
        ({"eos_token_id": 2}, {"eos_token_id": [7, 2]}, [], (7, 2)),
        ({"eos_token_id": None}, {}, [5], (5,)),
        ({"text_config": {"eos_token_id": [1, 106]}}, {}, [], (1, 106)),
        ({}, {}, [], ()),
    ],
)
def test_ends_of_an_answer(config, generation, tokenizer, ends):
    assert generation_defaults(config, generation, tokenizer).eos_token_ids == ends


def test_sampling_defaults():
    generation = {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": None}
    defaults = generation_defaults({}, generation, [])
    assert (defaults.temperature, defaults.top_k, defaults.top_p) == (0.7, 20, 0.8)
    assert defaults.repetition_penalty == 1.0


def test_sampling_defaults_have_the_types_and_ranges_of_a_request():
    """A float or -1 for top_k is in the wild; the engine's messages carry whole numbers only."""
    for written, meant in ((20.0, 20), (-1, 0), (0, 0)):
        top_k = generation_defaults({}, {"top_k": written}, []).top_k
        assert (type(top_k), top_k) == (int, meant)
    assert generation_defaults({}, {"temperature": float("nan")}, []).temperature == 1.0
    with pytest.raises(CheckpointError, match=r"top_p is 0.*above 0\.0"):
        generation_defaults({}, {"top_p": 0}, [])


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "max_position_embeddings", "vocab_size", "hidden_size"]
)
@pytest.mark.parametrize("value", [2**31, 10**30])
def test_numbers_that_no_model_has_are_refused_before_anything_grows_with_them(key, value):
    for architecture in ("LlamaForCausalLM", "MistralForCausalLM", "Gemma3ForCausalLM"):
        with pytest.raises(CheckpointError, match=f"{key} is .* more than any model has"):
            read(architecture, **{key: value})


def test_a_head_wider_than_any_is_refused():
    with pytest.raises(CheckpointError, match="head_dim is 1048576, but at most 4096"):
        read("LlamaForCausalLM", head_dim=2**20)
