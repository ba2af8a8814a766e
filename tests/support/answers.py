"""Runs requests through the real scheduler, memory manager and model runner.

An answer is everything a client could see of a request: tokens, log-probabilities, why it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.core.config import Limits
from stoker.core.model import ModelConfig, kv_layout
from stoker.core.request import FinishReason, Request, TokenLogprobs
from stoker.kernels.ops import Ops
from stoker.memory.manager import MemoryManager
from stoker.models.model import Model
from stoker.runner.runner import ModelRunner
from stoker.sched.scheduler import SchedStats, Scheduler


@dataclass(frozen=True)
class Answer:
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: FinishReason | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    embedding: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What must not show in an answer."""

    budget: int = 512
    max_num_seqs: int = 16
    num_pages: int = 512
    prefix_caching: bool = False
    steps_between_arrivals: int = 0


class System:
    """One engine's worth of state on a model; requests may come in several waves."""

    def __init__(self, model: Model, config: ModelConfig, ops: Ops, conditions: Conditions) -> None:
        limits = Limits(
            kv=kv_layout(config, "bf16"),
            num_pages=conditions.num_pages,
            max_model_len=config.max_position_embeddings,
            max_num_seqs=conditions.max_num_seqs,
            max_num_batched_tokens=conditions.budget,
            threads=2,
            vocab_size=config.vocab_size,
        )
        memory = MemoryManager(
            limits.kv, limits.num_pages, conditions.prefix_caching, domain="test"
        )
        self._scheduler = Scheduler(limits, memory, frozenset(), clock=lambda: 1.0)
        self._runner = ModelRunner(model, ops, limits)
        self._conditions = conditions
        self._answers: dict[str, Answer] = {}

    def answer(self, requests: Sequence[Request]) -> dict[str, Answer]:
        """Run these requests to their end; answers by request id."""
        for request in requests:
            self._scheduler.add(request)
            for _ in range(self._conditions.steps_between_arrivals):
                self._step()
        while self._scheduler.has_work:
            self._step()
        self._scheduler.check_integrity()
        return {request.id: self._answers.pop(request.id) for request in requests}

    @property
    def stats(self) -> SchedStats:
        return self._scheduler.stats

    def _step(self) -> None:
        plan = self._scheduler.schedule()
        if plan is None:
            return
        for event in self._scheduler.commit(plan, self._runner.execute(plan)):
            assert event.error is None, event.error
            sofar = self._answers.get(event.request_id, Answer())
            self._answers[event.request_id] = Answer(
                sofar.token_ids + event.token_ids,
                sofar.logprobs + (event.logprobs or ()),
                event.finish_reason,
                sofar.prompt_logprobs + event.prompt_logprobs,
                sofar.embedding + event.embedding,
            )
