"""Qwen2 and Qwen2.5 (biases on q, k and v) and Qwen3 (normalised heads instead)."""

from __future__ import annotations

from stoker.layers.attention import Attention
from stoker.layers.block import PreNormBlock
from stoker.models.parts import Parts


def build_qwen2_block(parts: Parts, layer: int) -> PreNormBlock:
    return _block(parts, layer, parts.attention(layer, bias=True))


def build_qwen3_block(parts: Parts, layer: int) -> PreNormBlock:
    return _block(parts, layer, parts.attention(layer, head_norm=True))


def _block(parts: Parts, layer: int, attention: Attention) -> PreNormBlock:
    name = f"model.layers.{layer}"
    return PreNormBlock(
        parts.ops,
        attention_norm=parts.norm(f"{name}.input_layernorm"),
        attention=attention,
        mlp_norm=parts.norm(f"{name}.post_attention_layernorm"),
        mlp=parts.mlp(layer),
    )
