"""From a plan to the logits of the rows that draw, op by op: for any kernel set.

`runner/graph.py` does the same with one call per step, for kernel sets that can be recorded.
"""

from __future__ import annotations

from typing import Protocol

from stoker.core.config import Limits
from stoker.core.plan import StepPlan
from stoker.kernels.dispatch import recordable
from stoker.kernels.ops import Array, Ints, Ops
from stoker.models.model import Model
from stoker.runner.batch import build_inputs, last_rows
from stoker.runner.kv_cache import KVCache


class Forward(Protocol):
    """Computes a plan's tokens and writes their KV; the plan has at least one sequence."""

    def __call__(self, plan: StepPlan) -> Array | None:
        """float32 [S, V], a row for each sequence that draws, in the plan's order; None where none
        does. Valid until the next call."""

    def hidden(self, rows: Ints) -> Array:
        """Rows of the last step's residual stream after the last block: int32 [R] → float32 [R, H].

        For what is asked of more rows than those that draw.
        """


class EagerForward:
    """Calls the model's layers for every step."""

    def __init__(self, model: Model, ops: Ops, kv: KVCache) -> None:
        self._model = model
        self._ops = ops
        self._kv = kv
        self._hidden: Array = None

    def __call__(self, plan: StepPlan) -> Array | None:
        self._hidden = self._model.forward(build_inputs(plan, self._kv))
        rows = last_rows(plan)
        if not len(rows):
            return None
        # Only rows that draw a token need logits: the head is the largest matrix of the model.
        return self._model.logits(self._ops.rows(self._hidden, rows))

    def hidden(self, rows: Ints) -> Array:
        return self._ops.rows(self._hidden, rows)


def best_forward(model: Model, ops: Ops, kv: KVCache, limits: Limits) -> Forward:
    """The fastest way that this kernel set offers."""
    native = recordable(ops)
    if native is None:
        return EagerForward(model, ops, kv)
    # Imported here, so that the reference set works where the extension was not built.
    from stoker.runner.graph import StepGraph

    return StepGraph(model, native, kv, limits)
