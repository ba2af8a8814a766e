"""Runs one step: arrays from the plan, the model, a token for each sequence that draws one."""

from __future__ import annotations

from stoker.core.config import Limits
from stoker.core.plan import SeqResult, StepPlan, StepResult
from stoker.kernels.ops import Ops
from stoker.models.model import Model
from stoker.runner.batch import build_inputs, last_rows
from stoker.runner.kv_cache import KVCache
from stoker.runner.sampler import draw


class ModelRunner:
    """A model with its page pool. Between steps it remembers nothing but the pages' contents."""

    def __init__(self, model: Model, ops: Ops, limits: Limits) -> None:
        self._model = model
        self._ops = ops
        self.kv = KVCache(ops, limits.kv, limits.num_pages)

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens, write their KV, draw where the plan says so.

        What goes wrong with one sequence is that sequence's `error`; the others are not touched.
        """
        results = [SeqResult(seq.request_id) for seq in plan.seqs]
        if not plan.seqs:
            return StepResult(plan.step_id, ())
        hidden = self._model.forward(build_inputs(plan, self.kv))
        drawing = [i for i, seq in enumerate(plan.seqs) if seq.sample is not None]
        if drawing:
            # Only rows that draw a token need logits: the head is the largest matrix of the model.
            logits = self._model.logits(self._ops.rows(hidden, last_rows(plan)))
            drawn = draw(self._ops, logits, [plan.seqs[i] for i in drawing])
            for i, result in zip(drawing, drawn, strict=True):
                results[i] = result
        return StepResult(plan.step_id, tuple(results))
