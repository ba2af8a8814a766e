"""The decoder that every family wires: embedding, blocks, norm, head.

It may not know of requests, pages' owners or sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Array
from stoker.layers.block import Block
from stoker.layers.embedding import Embedding
from stoker.layers.inputs import StepInputs
from stoker.layers.linear import Linear
from stoker.layers.norm import RMSNorm


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder-only language model; immutable, so steps cannot influence each other but by KV."""

    embedding: Embedding
    blocks: tuple[Block, ...]
    norm: RMSNorm
    head: Linear

    def forward(self, inputs: StepInputs) -> Array:
        """Residual stream after the last block: float32 [T, H]; writes KV into the pages."""
        x = self.embedding(inputs.token_ids)
        for block, step in zip(self.blocks, inputs.layers, strict=True):
            x = block(x, step)
        return x

    def logits(self, hidden: Array) -> Array:
        """Rows of `forward`'s result, float32 [S, H] → float32 [S, V]."""
        return self.head(self.norm(hidden))
