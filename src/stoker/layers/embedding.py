"""Token ids to vectors; it may not know which model it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Array, Ints, Ops, PackedWeight


@dataclass(frozen=True, slots=True)
class Embedding:
    """Rows of a packed table [vocab, K] times `scale`: int32 [T] → float32 [T, K]."""

    ops: Ops
    table: PackedWeight
    scale: float = 1.0

    def __call__(self, token_ids: Ints) -> Array:
        return self.ops.embed(token_ids, self.table, self.scale)
