"""GGUF metadata → ModelConfig and GenerationDefaults (keys: ggml/docs/gguf.md).

Where the file format leaves a fact to the reader's knowledge of the architecture (Gemma 3's pattern
of windows, its local RoPE base, its attention scale), the choice is llama.cpp's, whose files these
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.core.errors import CheckpointError
from stoker.core.model import GenerationDefaults, ModelConfig, RopeConfig
from stoker.weights.fields import Fields, sampling_defaults, token_ids
from stoker.weights.rope_factors import llama3_rope
from stoker.weights.shapes import check_heads

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
"""Names in general.architecture; Mistral's files say llama."""

GEMMA3_27B_LAYERS = 62

_END_TOKENS = frozenset(
    {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>"}
)
_CONTROL, _USER_DEFINED = 3, 4


def model_config(
    metadata: Mapping[str, Any], where: str, tied: bool, rope_factors: NDArray[np.float32] | None
) -> ModelConfig:
    """tied: there is no output matrix. rope_factors: float32 [head_dim / 2], tensor rope_freqs."""
    arch = Fields(metadata, where).text("general.architecture")
    if arch not in ARCHITECTURES:
        raise CheckpointError(
            f"{where}: unknown architecture {arch}; known are {', '.join(ARCHITECTURES)}"
        )
    prefix = f"{arch}."
    fields = Fields(
        {
            key.removeprefix(prefix): _scalar(value)
            for key, value in metadata.items()
            if key.startswith(prefix)
        },
        f"{where}: {arch}",
    )
    _refuse_unsupported(fields)
    hidden, heads = fields.integer("embedding_length"), fields.integer("attention.head_count")
    layers = fields.integer("block_count")
    head_dim = fields.integer("attention.key_length", hidden // heads)
    if fields.integer("rope.dimension_count", head_dim) != head_dim:
        raise CheckpointError(f"{where}: RoPE over a part of each head is not supported")
    gemma = arch == "gemma3"
    config = ModelConfig(
        family=arch,
        vocab_size=_vocab_size(metadata, fields),
        hidden_size=hidden,
        intermediate_size=fields.integer("feed_forward_length"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        rms_norm_eps=fields.number("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=fields.integer("context_length"),
        rope=_rope(fields, head_dim, 1_000_000.0 if gemma else 10_000.0, rope_factors),
        rope_local=_gemma3_local_rope(fields) if gemma else None,
        layer_windows=_windows(fields, layers, 6 if gemma else 0),
        attention_scale=_gemma3_scale(fields, hidden, heads, layers) if gemma else head_dim**-0.5,
        embedding_scale=hidden**0.5 if gemma else 1.0,
        activation="gelu_tanh" if gemma else "silu",
        tie_word_embeddings=tied,
    )
    return check_heads(config, where)


def generation_defaults(metadata: Mapping[str, Any]) -> GenerationDefaults:
    """Sampling defaults, and every id that ends an answer.

    Those the file names as end of text, turn or message, and, because many files name one only,
    control tokens of the vocabulary with a well-known name.
    """
    keys = {
        "temperature": "general.sampling.temp",
        "top_k": "general.sampling.top_k",
        "top_p": "general.sampling.top_p",
        "min_p": "general.sampling.min_p",
        "repetition_penalty": "general.sampling.penalty_repeat",
    }
    named = [metadata.get(f"tokenizer.ggml.{end}_token_id") for end in ("eos", "eot", "eom")]
    tokenizer = Fields(metadata, "metadata")
    tokens = tokenizer.items("tokenizer.ggml.tokens")
    kinds = tokenizer.items("tokenizer.ggml.token_type")
    known = [
        token_id
        for token_id, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind in (_CONTROL, _USER_DEFINED) and token in _END_TOKENS
    ]
    chosen = {name: metadata.get(key) for name, key in keys.items()}
    return sampling_defaults(chosen, token_ids(named) + known)


def _scalar(value: Any) -> Any:
    """Per-layer arrays of one repeated value (head counts, widths) become that value."""
    if isinstance(value, list) and value and all(x == value[0] for x in value):
        return value[0]
    return value


def _refuse_unsupported(fields: Fields) -> None:
    for feature in ("attn_logit_softcapping", "final_logit_softcapping", "expert_count"):
        if fields.raw(feature):
            raise CheckpointError(f"{fields.where}.{feature} is not supported")


def _vocab_size(metadata: Mapping[str, Any], fields: Fields) -> int:
    """The token list decides where there is one: the key may count padding or be left out."""
    tokens = Fields(metadata, fields.where).items("tokenizer.ggml.tokens")
    return len(tokens) or fields.integer("vocab_size")


def _rope(
    fields: Fields, head_dim: int, default_theta: float, factors: NDArray[np.float32] | None
) -> RopeConfig:
    theta = fields.number("rope.freq_base", default_theta)
    kind = fields.text("rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise CheckpointError(
            f"{fields.where}: RoPE scaling {kind!r} is not supported; known are none, linear and "
            "llama3 (rope_freqs)"
        )
    if factors is not None and (factors != 1).any():
        return llama3_rope(theta, factors, head_dim, fields.where)
    factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1.0))
    if kind == "none" or factor == 1.0:
        return RopeConfig(theta=theta)
    return RopeConfig(theta=theta, scaling="linear", factor=factor)


def _gemma3_local_rope(fields: Fields) -> RopeConfig:
    return RopeConfig(theta=fields.number("rope.freq_base_swa", 10_000.0))


def _gemma3_scale(fields: Fields, hidden: int, heads: int, layers: int) -> float:
    """The 27B model alone scales by its hidden width per head; the file does not say so."""
    default = (
        hidden // heads
        if layers == GEMMA3_27B_LAYERS
        else fields.integer("attention.key_length", hidden // heads)
    )
    return fields.number("attention.scale", default**-0.5)


def _windows(fields: Fields, layers: int, default_pattern: int) -> tuple[int | None, ...]:
    """No window, or one on every layer, or on all but each `pattern`-th; a list says which."""
    if not fields.raw("attention.sliding_window"):
        return (None,) * layers
    window = fields.integer("attention.sliding_window")
    pattern = fields.raw("attention.sliding_window_pattern")
    if isinstance(pattern, list | bool):
        windowed = [pattern] * layers if isinstance(pattern, bool) else pattern
    else:
        key = "attention.sliding_window_pattern"
        every = fields.integer(key) if pattern else default_pattern
        windowed = [not every or bool((layer + 1) % every) for layer in range(layers)]
    if len(windowed) != layers:
        raise CheckpointError(
            f"{fields.where}.attention.sliding_window_pattern names {len(windowed)} layers "
            f"of {layers}"
        )
    return tuple(window if local else None for local in windowed)
