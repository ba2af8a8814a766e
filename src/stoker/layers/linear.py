"""A linear map on a packed weight; it may not know which model it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Array, Ops, PackedWeight


@dataclass(frozen=True, slots=True)
class Linear:
    """y = x Wᵀ + b: float32 [T, K] → float32 [T, N]. The head is one too, on the embedding's own
    packed weight where the model ties them."""

    ops: Ops
    weight: PackedWeight
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        return self.ops.linear(x, self.weight, self.bias)
