"""The gated feed-forward network; it may not know which model it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core.model import Activation
from stoker.kernels.ops import Array, Ops
from stoker.layers.linear import Linear


@dataclass(frozen=True, slots=True)
class GatedMLP:
    """down(activation(gate(x)) * up(x)): [T, H] → [T, H] (Shazeer 2020).

    gate and up are two linears because a file may store them in two number formats; where the
    formats agree, a kernel set could run them as one.
    """

    ops: Ops
    gate: Linear
    up: Linear
    down: Linear
    activation: Activation

    def __call__(self, x: Array) -> Array:
        return self.down(self.ops.glu(self.gate(x), self.up(x), self.activation))
