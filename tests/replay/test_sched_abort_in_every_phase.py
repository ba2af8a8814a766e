"""A client that goes away must leave no zombie, no leaked page and no half-computed cached page.

Seen in sgl-project/sglang #36333, #6888, #38319 (PR 38355), PR 28374 and ROCm/ATOM PR 1562:
aborted requests decode on to max_tokens, keep their pages, or leave half-prefilled pages in the
prefix tree.
"""

from __future__ import annotations

import pytest

from stoker.core.request import FinishReason
from tests.support.scheduling import Engine, alone, request

PROMPT = [n % 7 for n in range(100)]


def engine_with(steps: int) -> Engine:
    """`a` in the phase it reaches after so many steps; `b` waits for the only seat."""
    engine = Engine(max_num_seqs=1, max_num_batched_tokens=24)
    engine.add(
        request("a", PROMPT, max_tokens=50, ignore_eos=True), request("b", [3] * 5, max_tokens=2)
    )
    for _ in range(steps):
        engine.step()
    return engine


@pytest.mark.parametrize("steps", [0, 1, 3, 5, 9], ids=["queued", "1", "3", "last chunk", "decode"])
@pytest.mark.parametrize("inside", [False, True], ids=["between steps", "inside a step"])
def test_abort_ends_within_one_step_and_gives_all_pages_back(steps: int, inside: bool) -> None:
    engine = engine_with(steps)
    if inside:
        plan = engine.scheduler.schedule()
        assert plan is not None
        engine.abort("a")
        engine.take(engine.scheduler.commit(plan, engine.runner.execute(plan)))
    else:
        engine.abort("a")
    assert engine.end("a").finish_reason is FinishReason.ABORT
    assert engine.memory.stats.held == 0
    computed = engine.runner.computed.get("a", 0)
    engine.finish()
    assert engine.runner.computed.get("a", 0) == computed  # no zombie
    assert len(engine.tokens("b")) == 2
    stats = engine.memory.stats
    assert stats.free + stats.cached == stats.total


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("inside", [False, True])
def test_pages_of_an_aborted_prefill_are_reused_only_where_complete(
    steps: int, inside: bool
) -> None:
    """The audit of the scripted runner fails if a page was published before its KV was there."""
    engine = engine_with(steps)
    plan = engine.scheduler.schedule() if inside else None
    engine.abort("a", "b")
    if plan is not None:
        engine.scheduler.commit(plan, engine.runner.execute(plan))
    again = request("again", PROMPT, max_tokens=5)
    engine.add(again)
    engine.finish()
    assert engine.tokens("again") == alone(again)
    # 24 tokens a step; pages of 16; the page of the last token is computed in any case.
    assert engine.end("again").num_cached_tokens == min(96, steps * 24 // 16 * 16)
