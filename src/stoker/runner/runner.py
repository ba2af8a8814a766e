"""Runs one step: arrays from the plan, the model, a token for each sequence that draws one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stoker.core.config import Limits
from stoker.core.plan import SeqResult, StepPlan, StepResult
from stoker.kernels.ops import Ops
from stoker.models.model import Model
from stoker.runner.forward import Forward, best_forward
from stoker.runner.kv_cache import KVCache
from stoker.runner.prompt_rows import PromptReader
from stoker.runner.sampler import draw


class ModelRunner:
    """A model with its page pool. Between steps it remembers nothing but the pages' contents."""

    def __init__(
        self,
        model: Model,
        ops: Ops,
        limits: Limits,
        forward: Callable[[Model, Ops, KVCache, Limits], Forward] = best_forward,
    ) -> None:
        self._ops = ops
        self.kv = KVCache(ops, limits.kv, limits.num_pages)
        self._forward = forward(model, ops, self.kv, limits)
        self._reader = PromptReader(model, ops, self._forward, limits.vocab_size)

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens, write their KV, draw where the plan says so.

        What goes wrong with one sequence is that sequence's `error`; the others are not touched.
        """
        results = [SeqResult(seq.request_id) for seq in plan.seqs]
        if not plan.seqs:
            return StepResult(plan.step_id, ())
        logits = self._forward(plan)
        if logits is not None:
            drawing = [i for i, seq in enumerate(plan.seqs) if seq.sample is not None]
            drawn = draw(self._ops, logits, [plan.seqs[i] for i in drawing])
            for i, result in zip(drawing, drawn, strict=True):
                results[i] = result
        row = 0
        for i, seq in enumerate(plan.seqs):
            if (seq.score or seq.pool) and results[i].error is None:
                read = self._reader.read(seq, row)
                results[i] = replace(
                    read, token_ids=results[i].token_ids, logprobs=results[i].logprobs
                )
            row += len(seq.token_ids)
        return StepResult(plan.step_id, tuple(results))
