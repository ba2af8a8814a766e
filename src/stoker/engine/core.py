"""EngineCore: the loop's body, schedule → execute → commit, over any runner.

Torch-free itself: the runner comes from outside. One bad request ends that request alone, one bad
step ends the sequences of that step alone; only a runner that fails step after step is an end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from stoker.core.errors import EngineDead, ErrorInfo, RequestFailed, StokerError
from stoker.core.plan import Runner, SeqResult, StepPlan, StepResult
from stoker.core.request import FinishReason, Request, TokenEvent
from stoker.engine.wire import Stats
from stoker.sched.scheduler import Scheduler

logger = logging.getLogger(__name__)

MAX_STEP_FAILURES = 3
"""Failed steps in a row after which the engine counts as broken."""


class EngineCore:
    """One scheduler and one runner; not safe for more than one thread."""

    def __init__(self, scheduler: Scheduler, runner: Runner) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._refused: list[TokenEvent] = []
        self._live: set[str] = set()
        self._failures = 0
        self.stalled = False
        """The last step found work but could run none of it."""

    @property
    def has_work(self) -> bool:
        return bool(self._refused) or self._scheduler.has_work

    @property
    def stats(self) -> Stats:
        return msgspec.convert(self._scheduler.stats, Stats, from_attributes=True)

    def submit(self, request: Request) -> None:
        """Queue a request. A refusal comes back from the next step as an event with its error."""
        try:
            self._scheduler.add(request)
        except StokerError as error:
            self._refused.append(_failed(request.id, error.info))
        except Exception:
            logger.exception("request %s could not be queued", request.id)
            info = RequestFailed("the engine could not queue this request").info
            self._refused.append(_failed(request.id, info))
        else:
            self._live.add(request.id)

    def abort(self, request_ids: Iterable[str]) -> list[TokenEvent]:
        """End requests at any stage and free their pages; unknown ids are ignored."""
        return self._ended(self._scheduler.abort(request_ids))

    def abort_all(self) -> list[TokenEvent]:
        return self.abort(tuple(self._live))

    def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes; what runs keeps the pages that it has."""
        self._scheduler.reset_prefix_cache()

    def step(self) -> list[TokenEvent]:
        """Run one batch and return what is new.

        Raises:
            EngineDead: `MAX_STEP_FAILURES` steps in a row failed; the engine must be restarted.
        """
        events, self._refused = self._refused, []
        plan = self._scheduler.schedule()
        self.stalled = plan is None and not events
        if plan is None:
            return events
        try:
            result = self._execute(plan)
        except BaseException as error:
            # Ctrl-C in a step, say. Uncommitted, the step would block every later one.
            message = f"the engine's step was broken off ({type(error).__name__})"
            self._ended(self._scheduler.commit(plan, _failed_step(plan, message)))
            raise
        return events + self._ended(self._scheduler.commit(plan, result))

    def check_totals(self) -> None:
        """Raise when the totals of the KV pages do not add up; cheap, for idle time."""
        self._scheduler.check_totals()

    def _execute(self, plan: StepPlan) -> StepResult:
        try:
            result = self._runner.execute(plan)
        except Exception as error:
            self._failures += 1
            requests = ", ".join(seq.request_id for seq in plan.seqs)
            logger.exception("step %d failed, with it %s", plan.step_id, requests)
            if self._failures >= MAX_STEP_FAILURES:
                raise EngineDead(
                    f"{self._failures} steps in a row failed ({type(error).__name__})"
                ) from error
            return _failed_step(plan, f"the engine's step failed ({type(error).__name__})")
        self._failures = 0
        return result

    def _ended(self, events: list[TokenEvent]) -> list[TokenEvent]:
        self._live.difference_update(e.request_id for e in events if e.finish_reason is not None)
        return events


def _failed(request_id: str, info: ErrorInfo) -> TokenEvent:
    return TokenEvent(request_id=request_id, finish_reason=FinishReason.ERROR, error=info)


def _failed_step(plan: StepPlan, message: str) -> StepResult:
    return StepResult(
        plan.step_id, tuple(SeqResult(seq.request_id, error=message) for seq in plan.seqs)
    )
