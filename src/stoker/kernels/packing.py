"""Tensors straight from a checkpoint: read and packed when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.kernels.ops import Array, Ops, PackedWeight
from stoker.weights.contract import Checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointTensors:
    """`ops.Tensors` of a checkpoint. CheckpointError where a tensor is missing or wrong."""

    checkpoint: Checkpoint
    ops: Ops

    def packed(self, name: str) -> PackedWeight:
        return self.ops.pack(self.checkpoint.weight(name))

    def vector(self, name: str) -> Array:
        return self.ops.vector(self.checkpoint.weight(name))
