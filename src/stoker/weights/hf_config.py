"""config.json and generation_config.json → ModelConfig and GenerationDefaults.

Defaults are those of transformers' config classes, because older versions left a value out of the
file where it equals the default. Sources: configuration_*.py of transformers 4.57 and 5.24.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.core.errors import CheckpointError
from stoker.core.model import Activation, GenerationDefaults, ModelConfig, RopeConfig
from stoker.weights.fields import Fields, sampling_defaults, token_ids
from stoker.weights.rope_config import global_rope, local_rope
from stoker.weights.shapes import check_heads

Windows = tuple[int | None, ...]

_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def model_config(config: Mapping[str, Any], where: str) -> ModelConfig:
    """`config` is the parsed config.json. CheckpointError names what is missing or unsupported."""
    fields = Fields(config, where)
    quantization = fields.section("quantization_config")
    if quantization is not None:
        method = quantization.raw("quant_method")
        raise CheckpointError(f"{where}: weights quantised with {method!r} are not supported")
    return check_heads(_family(fields)(fields), where)


def generation_defaults(
    config: Mapping[str, Any], generation: Mapping[str, Any], tokenizer_eos: list[int]
) -> GenerationDefaults:
    """Sampling defaults of generation_config.json; every id that any of the files calls the end.

    CheckpointError for a default that no request could have.
    """
    text = Fields(config, "config.json").section("text_config")
    inner = None if text is None else text.raw("eos_token_id")
    ends = [
        *token_ids(generation.get("eos_token_id")),
        *token_ids(config.get("eos_token_id", inner)),
        *tokenizer_eos,
    ]
    return sampling_defaults(generation, ends)


def _family(fields: Fields) -> Callable[[Fields], ModelConfig]:
    architectures = fields.raw("architectures")
    if isinstance(architectures, list) and architectures:
        name = str(architectures[0])
        if name in _BY_ARCHITECTURE:
            return _BY_ARCHITECTURE[name]
    else:
        name = str(fields.raw("model_type"))
        if name in _BY_MODEL_TYPE:
            return _BY_MODEL_TYPE[name]
    known = ", ".join(_BY_ARCHITECTURE)
    raise CheckpointError(f"{fields.where}: unknown architecture {name}; known are {known}")


def _llama(fields: Fields) -> ModelConfig:
    return _build(fields, "llama", windows=_no_windows(fields))


def _mistral(fields: Fields) -> ModelConfig:
    """Every layer is windowed, or none where sliding_window is null."""
    window = fields.integer("sliding_window", 4096) if _stated(fields, "sliding_window") else None
    windows = (window,) * fields.integer("num_hidden_layers")
    return _build(fields, "mistral", windows=windows, kv_heads=8)


def _qwen2(fields: Fields) -> ModelConfig:
    return _build(fields, "qwen2", windows=_qwen_windows(fields))


def _qwen3(fields: Fields) -> ModelConfig:
    return _build(fields, "qwen3", windows=_qwen_windows(fields), head_dim=128)


def _gemma3_conditional(fields: Fields) -> ModelConfig:
    """The text part of a model that also sees; its tower is left out."""
    text = fields.section("text_config")
    if text is None:
        raise CheckpointError(f"{fields.where}: text_config is missing")
    return _gemma3(text)


def _gemma3(fields: Fields) -> ModelConfig:
    for feature in (
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "use_bidirectional_attention",
    ):
        if fields.raw(feature):
            raise CheckpointError(f"{fields.where}: {feature} is not supported")
    hidden = fields.integer("hidden_size", 2304)
    sizes = {
        "vocab_size": 262_208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": True,
    }
    stated = {key: value for key, value in fields.values.items() if value is not None}
    full = Fields({**sizes, **stated}, fields.where)
    return _build(
        full,
        "gemma3",
        windows=_layer_type_windows(full, _gemma3_layer_types(full), 4096),
        kv_heads=4,
        head_dim=256,
        activation=fields.text("hidden_activation", "gelu_pytorch_tanh"),
        theta=1_000_000.0,
        rope_local=local_rope(full, 10_000.0),
        attention_scale=fields.number("query_pre_attn_scalar", 256) ** -0.5,
        embedding_scale=hidden**0.5,
    )


def _build(
    fields: Fields,
    family: str,
    *,
    windows: Windows,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    activation: str | None = None,
    theta: float = 10_000.0,
    rope_local: RopeConfig | None = None,
    attention_scale: float | None = None,
    embedding_scale: float = 1.0,
) -> ModelConfig:
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    dim = fields.integer("head_dim", head_dim or hidden // heads)
    name = activation or fields.text("hidden_act", "silu")
    if name not in _ACTIVATIONS:
        raise CheckpointError(
            f"{fields.where}: activation {name!r} is not supported; known are "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return ModelConfig(
        family=family,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=fields.integer("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=fields.integer("num_key_value_heads", kv_heads or heads),
        head_dim=dim,
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        max_position_embeddings=fields.integer("max_position_embeddings"),
        rope=global_rope(fields, theta),
        rope_local=rope_local,
        layer_windows=windows,
        attention_scale=dim**-0.5 if attention_scale is None else attention_scale,
        embedding_scale=embedding_scale,
        activation=_ACTIVATIONS[name],
        tie_word_embeddings=fields.boolean("tie_word_embeddings", False),
    )


def _stated(fields: Fields, key: str) -> bool:
    """False only where the file says null: a key left out means transformers' default."""
    return key not in fields.values or fields.raw(key) is not None


def _no_windows(fields: Fields) -> Windows:
    return (None,) * fields.integer("num_hidden_layers")


def _qwen_windows(fields: Fields) -> Windows:
    """Windows only where use_sliding_window says so, then from layer max_window_layers on."""
    if not fields.boolean("use_sliding_window", False) or not _stated(fields, "sliding_window"):
        return _no_windows(fields)
    # Zero is a meaningful value here: every layer is windowed.
    first = 0 if fields.raw("max_window_layers") == 0 else fields.integer("max_window_layers", 28)
    types = fields.items("layer_types") or [
        "full_attention" if layer < first else "sliding_attention"
        for layer in range(fields.integer("num_hidden_layers"))
    ]
    return _layer_type_windows(fields, types, 4096)


def _gemma3_layer_types(fields: Fields) -> list[str]:
    """Every sixth layer is global, unless the file says otherwise in one of two ways."""
    types = fields.items("layer_types")
    if types:
        return types
    every = fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", 6))
    return [
        "sliding_attention" if (layer + 1) % every else "full_attention"
        for layer in range(fields.integer("num_hidden_layers"))
    ]


def _layer_type_windows(fields: Fields, types: list[str], default: int) -> Windows:
    layers = fields.integer("num_hidden_layers")
    unknown = {str(kind) for kind in types} - {"sliding_attention", "full_attention"}
    if unknown or len(types) != layers:
        raise CheckpointError(
            f"{fields.where}: layer_types names {len(types)} layers of {layers}"
            + (f" and unknown kinds {sorted(unknown)}" if unknown else "")
        )
    window = fields.integer("sliding_window", default)
    return tuple(window if kind == "sliding_attention" else None for kind in types)


_BY_ARCHITECTURE: dict[str, Callable[[Fields], ModelConfig]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _mistral,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "Gemma3ForCausalLM": _gemma3,
    "Gemma3ForConditionalGeneration": _gemma3_conditional,
}

_BY_MODEL_TYPE: dict[str, Callable[[Fields], ModelConfig]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3_text": _gemma3,
    "gemma3": _gemma3_conditional,
}
