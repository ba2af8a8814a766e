"""Root mean square normalisation; it may not know which model it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Array, Ops


@dataclass(frozen=True, slots=True)
class RMSNorm:
    """x / rms(x) * weight over the last dimension. weight: float32 [N], the factor as applied."""

    ops: Ops
    weight: Array
    eps: float

    def __call__(self, x: Array) -> Array:
        return self.ops.rms_norm(x, self.weight, self.eps)
