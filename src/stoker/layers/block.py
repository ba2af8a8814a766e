"""Decoder blocks: how attention and MLP join the residual stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stoker.kernels.ops import Array, Ops
from stoker.layers.attention import Attention
from stoker.layers.inputs import LayerStep
from stoker.layers.mlp import GatedMLP
from stoker.layers.norm import RMSNorm


class Block(Protocol):
    """One layer of a decoder: float32 [T, H] → [T, H]."""

    def __call__(self, x: Array, step: LayerStep) -> Array: ...


@dataclass(frozen=True, slots=True)
class PreNormBlock:
    """Each branch reads a normalised residual stream: Llama and most of its descendants."""

    ops: Ops
    attention_norm: RMSNorm
    attention: Attention
    mlp_norm: RMSNorm
    mlp: GatedMLP

    def __call__(self, x: Array, step: LayerStep) -> Array:
        x = self.ops.add(x, self.attention(self.attention_norm(x), step))
        return self.ops.add(x, self.mlp(self.mlp_norm(x)))


@dataclass(frozen=True, slots=True)
class SandwichBlock:
    """Each branch is normalised on its way in and on its way out: Gemma 3."""

    ops: Ops
    attention_norm: RMSNorm
    attention: Attention
    attention_out_norm: RMSNorm
    mlp_norm: RMSNorm
    mlp: GatedMLP
    mlp_out_norm: RMSNorm

    def __call__(self, x: Array, step: LayerStep) -> Array:
        branch = self.attention(self.attention_norm(x), step)
        x = self.ops.add(x, self.attention_out_norm(branch))
        branch = self.mlp(self.mlp_norm(x))
        return self.ops.add(x, self.mlp_out_norm(branch))
