"""Any traffic through any small engine: outputs are a function of the request alone.

Random requests (shared prefixes, salts, priorities, seeds), windows, pools, budgets, seats, aborts
before, between and inside steps, errors and leases. After every step the pages add up; the scripted
runner audits every position that a step reads; at the end every request has finished, with exactly
the output that the script gives for it alone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stoker.core.errors import ExceedsCapacity
from stoker.core.plan import SampleSpec, StepPlan
from stoker.core.request import FinishReason, Request
from stoker.sched.admission import Admission
from tests.support.scheduling import EOS, VOCAB, Engine, request
from tests.support.scripted import by_hash

DOCUMENTS = [[(7 * n * n + d) % VOCAB for n in range(90)] for d in range(2)]
SCRIPT = by_hash(VOCAB)

WINDOWS = st.sampled_from([(None,), (20,), (None, 17), (33, 5, None), (None, 1), (48, 16)])


def expected(item: Request, longest: int) -> list[int]:
    """What the script draws for a request that is alone in the world."""
    history, output, params = list(item.prompt_token_ids), [], item.params
    stops = set(params.stop_token_ids) | (set() if params.ignore_eos else {EOS})
    while True:
        banned = tuple(stops) if len(output) < params.min_tokens else ()
        spec = SampleSpec(params, item.choice, history, len(item.prompt_token_ids), banned)
        output.append(SCRIPT(item.id, spec))
        history.append(output[-1])
        if output[-1] in stops or len(history) >= longest:
            return output


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        windows=WINDOWS,
        seats=st.integers(1, 5),
        extra_budget=st.integers(0, 50),
        pages=st.integers(6, 40),
        caching=st.booleans(),
    )
    def start(
        self, windows: tuple[Any, ...], seats: int, extra_budget: int, pages: int, caching: bool
    ) -> None:
        self.engine = Engine(
            SCRIPT,
            prefix_caching=caching,
            windows=windows,
            errors={f"e{n}": "scripted" for n in range(1000)},
            num_pages=pages,
            max_model_len=130,
            max_num_seqs=seats,
            max_num_batched_tokens=seats + extra_budget,
        )
        self.requests: dict[str, Request] = {}
        self.aborted: set[str] = set()
        self.flight: StepPlan | None = None
        self.counters: list[int] = []

    @rule(
        document=st.sampled_from(DOCUMENTS),
        shared=st.integers(0, 90),
        own=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6),
        max_tokens=st.none() | st.integers(1, 30),
        min_tokens=st.sampled_from([0, 0, 3]),
        priority=st.integers(0, 2),
        salt=st.sampled_from([None, None, "a", "model/f32"]),
        seed=st.integers(0, 1),
        fails=st.sampled_from([False] * 7 + [True]),
    )
    def submit(
        self,
        document: list[int],
        shared: int,
        own: list[int],
        max_tokens: int | None,
        min_tokens: int,
        priority: int,
        salt: str | None,
        seed: int,
        fails: bool,
    ) -> None:
        item = request(
            f"{'e' if fails else 'r'}{len(self.requests)}",
            document[:shared] + own,
            max_tokens=max_tokens,
            min_tokens=0 if max_tokens is not None and max_tokens < 3 else min_tokens,
            priority=priority,
            cache_salt=salt,
            seed=seed,
        )
        try:
            self.engine.add(item)
        except ExceedsCapacity:
            return
        self.requests[item.id] = item

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.requests)))
        events = self.engine.abort(name)
        if events:
            assert [event.finish_reason for event in events] == [FinishReason.ABORT]
            self.aborted.add(name)

    @precondition(lambda self: self.flight is None)
    @rule()
    def schedule(self) -> None:
        self.flight = self.engine.scheduler.schedule()
        assert self.flight is not None or not self.engine.scheduler.has_work
        if self.flight is not None:
            limits = self.engine.limits
            assert self.flight.num_tokens <= limits.max_num_batched_tokens
            assert len(self.flight.seqs) <= limits.max_num_seqs

    @precondition(lambda self: self.flight is not None)
    @rule()
    def commit(self) -> None:
        assert self.flight is not None
        result = self.engine.runner.execute(self.flight)
        self.engine.take(self.engine.scheduler.commit(self.flight, result))
        self.flight = None

    @precondition(lambda self: self.flight is None)
    @rule(steps=st.integers(1, 12))
    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.engine.step()

    @rule()
    def reset_prefix_cache(self) -> None:
        self.engine.memory.reset_prefix_cache()

    @invariant()
    def books_balance(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.engine.scheduler.check_integrity()
        stats = self.engine.scheduler.stats
        counters = [
            stats.num_preemptions,
            stats.prefix_queries,
            stats.prefix_hits,
            stats.prompt_tokens,
            stats.generation_tokens,
            stats.num_steps,
        ]
        assert all(now >= before for now, before in zip(counters, self.counters, strict=False))
        assert stats.prefix_hits <= stats.prefix_queries
        assert stats.prefix_queries <= sum(len(r.prompt_token_ids) for r in self.requests.values())
        self.counters = counters

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        if self.flight is not None:
            self.commit()
        self.engine.finish()
        assert self.engine.memory.stats.held == 0
        admission = Admission(self.engine.limits)
        for name, item in self.requests.items():
            end, tokens = self.engine.end(name), self.engine.tokens(name)
            full = expected(item, admission.admit(item))
            if name in self.aborted:
                assert end.finish_reason is FinishReason.ABORT
                assert tokens == full[: len(tokens)]
            elif name.startswith("e"):
                assert end.finish_reason is FinishReason.ERROR and not tokens
            else:
                assert tokens == full
            assert end.num_cached_tokens < len(item.prompt_token_ids)


SchedulerMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None
)
TestScheduler = SchedulerMachine.TestCase
