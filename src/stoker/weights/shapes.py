"""The shapes that a config implies for the known tensor names, checked as a tensor is read.

A checkpoint whose config.json belongs to another model is refused here, with both shapes, and not
by a crash in a kernel. Which tensors an architecture needs is the business of `models`.
"""

from __future__ import annotations

import re

from stoker.core.errors import CheckpointError
from stoker.core.model import ModelConfig

MAX_HEAD_DIM = 4096
"""Far above any model's. RoPE tables grow with it before a tensor's shape can contradict it."""

_LAYER = re.compile(r"model\.layers\.(\d+)\.(?:[a-z_]+\.)?([a-z_]+)\.(weight|bias)")
_OTHER = re.compile(r"(?:model\.)?(embed_tokens|lm_head|norm)\.(weight|bias)")


def check_shape(config: ModelConfig, name: str, shape: tuple[int, ...]) -> None:
    """CheckpointError if `name` is a known tensor and `shape` is not what `config` implies."""
    expected = expected_shape(config, name)
    if expected is not None and shape != expected:
        raise CheckpointError(
            f"tensor {name} has shape {list(shape)}, but the model's config implies "
            f"{list(expected)}"
        )


def check_heads(config: ModelConfig, where: str) -> ModelConfig:
    """The config itself, if its heads can be grouped and rotated; else CheckpointError."""
    if config.num_heads % config.num_kv_heads:
        raise CheckpointError(
            f"{where}: {config.num_heads} attention heads cannot share "
            f"{config.num_kv_heads} KV heads"
        )
    if config.head_dim > MAX_HEAD_DIM:
        raise CheckpointError(
            f"{where}: head_dim is {config.head_dim}, but at most {MAX_HEAD_DIM} is supported"
        )
    if config.head_dim % 2:
        raise CheckpointError(f"{where}: head_dim is {config.head_dim}, which RoPE cannot halve")
    return config


def expected_shape(config: ModelConfig, name: str) -> tuple[int, ...] | None:
    """The shape of a tensor by its Hugging Face name; None for a name that is not known."""
    match = _LAYER.fullmatch(name)
    if match and int(match[1]) < config.num_layers:
        module, kind = match[2], match[3]
    elif match := _OTHER.fullmatch(name):
        module, kind = match[1], match[2]
    else:
        return None
    shape = _modules(config).get(module)
    if shape is None:
        return None
    return shape[:1] if kind == "bias" else shape


def _modules(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    hidden, ffn = config.hidden_size, config.intermediate_size
    q_rows = config.num_heads * config.head_dim
    kv_rows = config.num_kv_heads * config.head_dim
    norms = (
        "norm",
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
    return {
        "embed_tokens": (config.vocab_size, hidden),
        "lm_head": (config.vocab_size, hidden),
        "q_proj": (q_rows, hidden),
        "k_proj": (kv_rows, hidden),
        "v_proj": (kv_rows, hidden),
        "o_proj": (hidden, q_rows),
        "q_norm": (config.head_dim,),
        "k_norm": (config.head_dim,),
        "gate_proj": (ffn, hidden),
        "up_proj": (ffn, hidden),
        "down_proj": (hidden, ffn),
        **dict.fromkeys(norms, (hidden,)),
    }
