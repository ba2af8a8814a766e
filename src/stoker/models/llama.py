"""Llama 2 and 3, SmolLM2, TinyLlama and, with a window in the config, Mistral."""

from __future__ import annotations

from stoker.layers.block import PreNormBlock
from stoker.models.parts import Parts


def build_block(parts: Parts, layer: int) -> PreNormBlock:
    name = f"model.layers.{layer}"
    return PreNormBlock(
        parts.ops,
        attention_norm=parts.norm(f"{name}.input_layernorm"),
        attention=parts.attention(layer),
        mlp_norm=parts.norm(f"{name}.post_attention_layernorm"),
        mlp=parts.mlp(layer),
    )
