"""The life of requests inside the engine: admit, plan a step, take in its result, finish.

Pure bookkeeping: it never sees a tensor or a text. The engine calls, strictly in turn,

    add / abort (any time) → schedule → (the runner executes) → commit → schedule → ...
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from stoker.core.config import Limits
from stoker.core.errors import InvalidRequest, RequestFailed, StokerError
from stoker.core.plan import SeqResult, SeqStep, StepPlan, StepResult
from stoker.core.request import FinishReason, Request, TokenEvent
from stoker.memory.manager import MemoryManager
from stoker.memory.pool import PageAccountingError
from stoker.sched.admission import Admission
from stoker.sched.planner import Planner
from stoker.sched.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedStats:
    """Numbers after a step, under the names of `engine.wire.Stats`. Counters only grow."""

    num_running: int
    num_waiting: int
    pages_free: int
    pages_cached: int
    pages_held: int
    pages_leased: int
    num_preemptions: int
    prefix_queries: int
    prefix_hits: int
    prompt_tokens: int
    generation_tokens: int
    num_steps: int
    step_tokens: int
    steps_by_size: list[int]


class Scheduler:
    """One engine's requests. Not thread-safe: one loop owns it."""

    def __init__(
        self,
        limits: Limits,
        memory: MemoryManager,
        eos_token_ids: frozenset[int],
        clock: Callable[[], float],
    ) -> None:
        """`clock` gives seconds since the epoch, for the timing of events only."""
        self._admission = Admission(limits)
        self._planner = Planner(limits, memory)
        self._memory = memory
        self._eos = eos_token_ids
        self._clock = clock
        self._vocab_size = limits.vocab_size
        self._arrivals = itertools.count()
        self._by_id: dict[str, Sequence] = {}
        self._in_flight: dict[str, Sequence] = {}
        self._step_id = 0
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._step_tokens = 0
        self._steps_by_size = [0] * (limits.max_num_batched_tokens.bit_length() + 1)

    def add(self, request: Request) -> None:
        """Let a request wait for its first step.

        Raises:
            InvalidRequest and its kinds: it could never run (see `admission`), or its id is taken.
        """
        if request.id in self._by_id:
            raise InvalidRequest(f"a request with id {request.id} is already running", param="id")
        max_tokens = self._admission.admit(request)
        params = request.params
        stop_ids = frozenset(params.stop_token_ids)
        if not params.ignore_eos:
            stop_ids |= self._eos
        if params.min_tokens and len(stop_ids) >= self._vocab_size:
            raise InvalidRequest(
                "stop_token_ids names every token there is, so min_tokens leaves none to draw",
                param="stop_token_ids",
            )
        table = self._memory.open(request.prompt_token_ids, request.cache_salt)
        seq = Sequence(request, table, next(self._arrivals), stop_ids, max_tokens)
        self._by_id[request.id] = seq
        self._planner.waiting.add(seq)

    def abort(self, request_ids: Iterable[str]) -> list[TokenEvent]:
        """End requests at once, in any phase; unknown ids are ignored.

        Pages that a step in flight may still write are freed when that step is committed.
        """
        events = []
        for request_id in request_ids:
            seq = self._by_id.get(request_id)
            if seq is None:
                continue
            seq.is_aborted = True
            events.append(self._finish(seq, FinishReason.ABORT))
        return events

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes; what runs keeps the pages that it has."""
        self._memory.reset_prefix_cache()

    @property
    def has_work(self) -> bool:
        return bool(self._by_id)

    def schedule(self) -> StepPlan | None:
        """The next step; None when nothing can run now.

        Raises:
            StokerError: the step before was not committed.
        """
        if self._in_flight:
            raise StokerError(f"step {self._step_id} is not committed, so no other can start")
        grants = self._planner.plan()
        if not grants:
            return None
        now = self._clock()
        for seq, _ in grants:
            seq.scheduled_at = seq.scheduled_at or now
        self._in_flight = {seq.id: seq for seq, _ in grants}
        self._step_id += 1
        plan = StepPlan(self._step_id, tuple(self._seq_step(seq, n) for seq, n in grants))
        self._step_tokens += plan.num_tokens
        self._steps_by_size[(plan.num_tokens - 1).bit_length()] += 1
        return plan

    def commit(self, plan: StepPlan, result: StepResult) -> list[TokenEvent]:
        """Take in what the step computed; returns the news, finished requests included.

        Raises:
            StokerError: the result is not that of the step in flight; nothing was taken in.
        """
        ids = [step.request_id for step in plan.seqs]
        if (
            plan.step_id != self._step_id
            or result.step_id != self._step_id
            or ids != list(self._in_flight)
            or ids != [seq.request_id for seq in result.seqs]
        ):
            raise StokerError(
                f"step {self._step_id} with {list(self._in_flight)} is in flight, but the plan of "
                f"step {plan.step_id} with {ids} was committed with the result of {result.step_id} "
                f"with {[seq.request_id for seq in result.seqs]}"
            )
        flight, self._in_flight = self._in_flight, {}
        events = []
        for step, outcome in zip(plan.seqs, result.seqs, strict=True):
            seq = flight[step.request_id]
            if seq.is_aborted:
                self._memory.free(seq.table)
                continue
            event = self._take_in(seq, step, outcome)
            if event is not None:
                events.append(event)
        return events

    @property
    def stats(self) -> SchedStats:
        pages = self._memory.stats
        return SchedStats(
            num_running=len(self._planner.running),
            num_waiting=len(self._planner.waiting),
            pages_free=pages.free,
            pages_cached=pages.cached,
            pages_held=pages.held,
            pages_leased=pages.leased,
            num_preemptions=self._planner.num_preemptions,
            prefix_queries=pages.queries,
            prefix_hits=pages.hits,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
            num_steps=self._step_id,
            step_tokens=self._step_tokens,
            steps_by_size=self._steps_by_size,
        )

    def check_integrity(self) -> None:
        """Raise PageAccountingError unless every page is accounted for; O(pages)."""
        self._memory.check_integrity()
        self.check_totals()

    def check_totals(self) -> None:
        """The part of `check_integrity` that is O(1), for idle time: pages add up, and without
        requests none is held, which the manager alone cannot know.
        """
        stats = self._memory.stats
        if stats.free + stats.cached + stats.held + stats.leased != stats.total:
            raise PageAccountingError(f"pages do not add up: {stats}")
        if stats.held and not self._by_id and not self._in_flight:
            raise PageAccountingError(f"{stats.held} pages are held, but there are no requests")

    def _seq_step(self, seq: Sequence, num_tokens: int) -> SeqStep:
        end = seq.num_computed + num_tokens
        return SeqStep(
            request_id=seq.id,
            token_ids=seq.tokens[seq.num_computed : end],
            start=seq.num_computed,
            page_tables=self._memory.page_tables(seq.table),
            sample=seq.sample_spec if end == len(seq.tokens) and seq.wants_token else None,
            score=seq.score_spec(end),
            pool=seq.pool_spec(end),
        )

    def _take_in(self, seq: Sequence, step: SeqStep, outcome: SeqResult) -> TokenEvent | None:
        """Advance one sequence by its part of the step; None when there is no news."""
        if outcome.error is not None:
            # Nothing of a failed step is published: its KV may be as bad as its logits.
            return self._finish(seq, FinishReason.ERROR, error=RequestFailed(outcome.error))
        if not _is_what_was_asked(step, outcome):
            error = RequestFailed("the runner gave more or less than the step asked for")
            return self._finish(seq, FinishReason.ERROR, error=error)
        end = step.start + len(step.token_ids)
        self._memory.commit(seq.table, seq.tokens, end)
        seq.num_read = max(seq.num_read, min(end, seq.num_to_read))
        seq.pooled = outcome.pooled
        if end < len(seq.tokens):
            return self._event(seq, outcome) if outcome.prompt_logprobs else None
        if not seq.num_output:
            seq.first_token_at = self._clock()
            self._prompt_tokens += seq.num_prompt
        if step.sample is None:
            return self._finish(seq, FinishReason.LENGTH, drawn=outcome)
        reason, count = None, 0
        while reason is None and count < len(outcome.token_ids):
            seq.tokens.append(outcome.token_ids[count])
            reason, count = _finish_reason(seq), count + 1
        self._generation_tokens += count
        logprobs = None if outcome.logprobs is None else outcome.logprobs[:count]
        drawn = replace(outcome, token_ids=outcome.token_ids[:count], logprobs=logprobs)
        if reason is not None:
            return self._finish(seq, reason, drawn=drawn)
        return self._event(seq, drawn)

    def _finish(
        self,
        seq: Sequence,
        reason: FinishReason,
        *,
        drawn: SeqResult | None = None,
        error: StokerError | None = None,
    ) -> TokenEvent:
        """Take a sequence out of every list; its pages too, unless a step may still write them."""
        del self._by_id[seq.id]
        lists = self._planner
        (lists.running if seq in lists.running else lists.waiting).remove(seq)
        if self._in_flight.get(seq.id) is not seq:
            self._memory.free(seq.table)
        return self._event(seq, drawn or SeqResult(seq.id), reason, error)

    def _event(
        self,
        seq: Sequence,
        drawn: SeqResult,
        reason: FinishReason | None = None,
        error: StokerError | None = None,
    ) -> TokenEvent:
        stopped = reason is FinishReason.STOP
        return TokenEvent(
            request_id=seq.id,
            token_ids=drawn.token_ids,
            logprobs=drawn.logprobs,
            prompt_logprobs=drawn.prompt_logprobs,
            embedding=drawn.pooled if reason is not None else b"",
            finish_reason=reason,
            stop_token_id=drawn.token_ids[-1] if stopped else None,
            num_cached_tokens=seq.num_cached or 0,
            error=None if error is None else error.info,
            timing=seq.timing(0.0 if reason is None else self._clock()),
        )


def _is_what_was_asked(step: SeqStep, outcome: SeqResult) -> bool:
    return (
        bool(outcome.token_ids) == (step.sample is not None)
        and len(outcome.prompt_logprobs) == (0 if step.score is None else len(step.score.targets))
        and bool(outcome.pooled) == (step.pool is not None)
    )


def _finish_reason(seq: Sequence) -> FinishReason | None:
    """Whether the last known token ends the output; stop wins over length at the same token."""
    if seq.num_output > seq.request.params.min_tokens and seq.tokens[-1] in seq.stop_ids:
        return FinishReason.STOP
    return FinishReason.LENGTH if len(seq.tokens) >= seq.max_tokens else None
