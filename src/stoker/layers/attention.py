"""Self-attention over paged keys and values; it may not know which model it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Array, Ops
from stoker.layers.inputs import LayerStep
from stoker.layers.linear import Linear
from stoker.layers.norm import RMSNorm


@dataclass(frozen=True, slots=True)
class Attention:
    """Project, normalise heads where the model does, rotate, store, attend, project back.

    q, k and v are three linears because a file may store them in different number formats; where
    the formats agree, a kernel set could run them as one.

    cos_sin: float32 [max_positions, head_dim], see `layers.rotary`. window: None, or how many
    positions a token sees, itself included.
    """

    ops: Ops
    q: Linear
    k: Linear
    v: Linear
    out: Linear
    q_norm: RMSNorm | None
    k_norm: RMSNorm | None
    cos_sin: Array
    head_dim: int
    scale: float
    window: int | None

    def __call__(self, x: Array, step: LayerStep) -> Array:
        """float32 [T, H] → [T, H]; writes the rows' keys and values into their pages."""
        heads = (x.shape[0], -1, self.head_dim)
        q, k, v = (linear(x).reshape(heads) for linear in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q = self.ops.rope_and_store(q, k, v, self.cos_sin, step.rows, step.kv)
        return self.out(self.ops.attention(q, step.rows, step.kv, self.scale, self.window))
