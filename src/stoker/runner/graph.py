"""A model's forward captured once and replayed with one native call per step.

Capture runs the model on a recording kernel set: its own code says which ops there are and in which
order, for a step of any size. What a step adds are its tokens, positions and pages.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar, cast

from stoker.core.config import Limits
from stoker.core.model import PAGE_SIZE
from stoker.core.plan import StepPlan
from stoker.kernels import _native
from stoker.kernels.cpu import CpuOps
from stoker.kernels.ops import Array, Ints, Rows
from stoker.kernels.plan import CompiledPlan
from stoker.kernels.record import Recorder, StepRows
from stoker.layers.inputs import LayerStep, StepInputs
from stoker.models.model import Model
from stoker.runner.kv_cache import KVCache

T = TypeVar("T")


class StepGraph:
    """`runner.forward.Forward` by replay. The bits are those of the same kernels op by op."""

    def __init__(self, model: Model, ops: CpuOps, kv: KVCache, limits: Limits) -> None:
        recorder = Recorder()
        recorded = _on_ops(model, recorder)
        layers = tuple(
            LayerStep(cast(Rows, StepRows(kv.group_of[layer])), pages)
            for layer, pages in enumerate(kv.layers)
        )
        token_ids = cast(Ints, None)  # whatever they will be
        hidden = recorded.forward(StepInputs(token_ids, layers))
        logits = recorded.logits(recorder.take_rows(hidden))
        max_tokens, max_seqs = limits.max_num_batched_tokens, limits.max_num_seqs
        self._plan = CompiledPlan(ops, recorder.ops, logits, max_tokens, max_seqs, keep=(hidden,))
        self._ops = ops
        self._hidden = self._plan.array(hidden)
        max_pages = -(-limits.max_model_len // PAGE_SIZE)
        self._step = _native.Step(max_tokens, max_seqs, len(limits.kv.groups), max_pages)

    def __call__(self, plan: StepPlan) -> Array | None:
        step = self._step
        step.clear()
        for seq in plan.seqs:
            step.add(seq.token_ids, seq.start, seq.page_tables, seq.sample is not None)
        logits = self._plan.run(step)
        return logits if step.num_samples else None

    def hidden(self, rows: Ints) -> Array:
        return self._ops.rows(self._hidden, rows)


def _on_ops(part: T, ops: Recorder) -> T:
    """A copy of a model, or of a part of one, that calls `ops` instead of its own kernel set."""
    if isinstance(part, tuple):
        return cast(T, tuple(_on_ops(each, ops) for each in part))
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    changed = {
        name: ops if name == "ops" else _on_ops(value, ops) for name, value in fields.items()
    }
    return cast(T, dataclasses.replace(part, **changed))
