"""A scheduler over a scripted runner, small enough that a test states every number it needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from stoker.core.config import Limits
from stoker.core.model import KVGroup, KVLayout
from stoker.core.plan import StepPlan
from stoker.core.request import Request, SamplingParams, TokenEvent
from stoker.memory.manager import MemoryManager
from stoker.sched.scheduler import Scheduler
from tests.support.scripted import Script, ScriptedRunner, by_hash

VOCAB = 50
EOS = 7


def layout(*windows: int | None) -> KVLayout:
    """One KV group of one layer for each window."""
    groups = tuple(KVGroup((layer,), window) for layer, window in enumerate(windows))
    return KVLayout(groups=groups, layers_per_page=1, num_kv_heads=1, head_dim=8, dtype="f32")


def limits(windows: Sequence[int | None] = (None,), **fields: Any) -> Limits:
    values: dict[str, Any] = {
        "vocab_size": VOCAB,
        "num_pages": 64,
        "max_model_len": 256,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 32,
        "threads": 1,
    }
    return Limits(kv=layout(*windows), **(values | fields))


def request(request_id: str, prompt: Sequence[int], **fields: Any) -> Request:
    """Fields of SamplingParams and of Request alike; greedy unless a test says otherwise."""
    own = {k: fields.pop(k) for k in ("choice", "priority", "cache_salt", "pooling") if k in fields}
    params = SamplingParams(**({"temperature": 0.0} | fields))
    return Request(id=request_id, prompt_token_ids=list(prompt), params=params, **own)


class Engine:
    """schedule → execute → commit, with the books checked after every step."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        prefix_caching: bool = True,
        eos: frozenset[int] = frozenset({EOS}),
        errors: dict[str, str] | None = None,
        windows: Sequence[int | None] = (None,),
        **fields: Any,
    ) -> None:
        self.limits = limits(windows, **fields)
        self.memory = MemoryManager(
            self.limits.kv, self.limits.num_pages, prefix_caching, "model/f32"
        )
        ticks = itertools.count(1)
        self.scheduler = Scheduler(self.limits, self.memory, eos, lambda: float(next(ticks)))
        self.runner = ScriptedRunner(script or by_hash(VOCAB), self.limits.kv, errors=errors)
        self.events: dict[str, list[TokenEvent]] = {}

    def add(self, *requests: Request) -> None:
        for item in requests:
            self.scheduler.add(item)
            self.events[item.id] = []

    def step(self) -> StepPlan | None:
        plan = self.scheduler.schedule()
        if plan is not None:
            self.take(self.scheduler.commit(plan, self.runner.execute(plan)))
        self.scheduler.check_integrity()
        return plan

    def abort(self, *request_ids: str) -> list[TokenEvent]:
        events = self.scheduler.abort(request_ids)
        self.take(events)
        return events

    def take(self, events: list[TokenEvent]) -> None:
        for event in events:
            self.events[event.request_id].append(event)

    def finish(self, max_steps: int = 2000) -> None:
        """Run until nothing is left to do; fails when work is left but no step can be made."""
        for _ in range(max_steps):
            if not self.scheduler.has_work:
                return
            assert self.step() is not None, "work is left, but no step can be made"
        raise AssertionError(f"not done after {max_steps} steps")

    def tokens(self, request_id: str) -> list[int]:
        return [token for event in self.events[request_id] for token in event.token_ids]

    def end(self, request_id: str) -> TokenEvent:
        """The one event with a finish reason; it must be the last."""
        reasons = [event.finish_reason is not None for event in self.events[request_id]]
        assert reasons == [False] * (len(reasons) - 1) + [True]
        return self.events[request_id][-1]


def alone(item: Request, script: Script | None = None, **fields: Any) -> list[int]:
    """The output of a request that has the engine to itself, without prefix cache."""
    engine = Engine(script, prefix_caching=False, **fields)
    engine.add(item)
    engine.finish()
    return engine.tokens(item.id)
