"""Gemma 3, text: sandwich norms, normalised heads, windowed layers with their own RoPE.

The embedding scale, the windows and the two RoPEs are in the config.
"""

from __future__ import annotations

from stoker.layers.block import SandwichBlock
from stoker.models.parts import Parts


def build_block(parts: Parts, layer: int) -> SandwichBlock:
    name = f"model.layers.{layer}"
    return SandwichBlock(
        parts.ops,
        attention_norm=parts.norm(f"{name}.input_layernorm"),
        attention=parts.attention(layer, head_norm=True),
        attention_out_norm=parts.norm(f"{name}.post_attention_layernorm"),
        mlp_norm=parts.norm(f"{name}.pre_feedforward_layernorm"),
        mlp=parts.mlp(layer),
        mlp_out_norm=parts.norm(f"{name}.post_feedforward_layernorm"),
    )
