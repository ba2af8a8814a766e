"""Preemption must change neither text nor logprobs nor counters.

Seen in vllm-project/vllm #16832, #25538, #25780, PR 29071 and LMCache #2912: text lost or repeated
after preemption, thrashing, recomputed tokens counted as cache hits, counters going negative.
"""

from __future__ import annotations

import pytest

from tests.support.scheduling import Engine, alone, request

PROMPTS = {"a": [1] * 17, "b": [2] * 18, "c": [3] * 19}


def run(num_pages: int, *, prefix_caching: bool) -> Engine:
    engine = Engine(eos=frozenset(), num_pages=num_pages, prefix_caching=prefix_caching)
    engine.add(
        *(request(name, prompt, max_tokens=60, logprobs=2) for name, prompt in PROMPTS.items())
    )
    engine.finish()
    return engine


@pytest.mark.parametrize("prefix_caching", [False, True])
@pytest.mark.parametrize("num_pages", [5, 6, 8, 11, 14])
def test_output_with_preemption_is_output_without(num_pages: int, prefix_caching: bool) -> None:
    engine = run(num_pages, prefix_caching=prefix_caching)
    for name, prompt in PROMPTS.items():
        assert engine.tokens(name) == alone(request(name, prompt, max_tokens=60), eos=frozenset())
        events = engine.events[name]
        assert [event.num_cached_tokens for event in events] == [0] * 60
        assert [p.token_id for e in events for p in e.logprobs or ()] == engine.tokens(name)
    # No thrashing: nobody starts who cannot hold all that is known of it.
    assert engine.scheduler.stats.num_preemptions <= 4


def test_a_small_pool_preempts_and_a_large_one_does_not() -> None:
    assert run(11, prefix_caching=True).scheduler.stats.num_preemptions > 0
    assert run(64, prefix_caching=True).scheduler.stats.num_preemptions == 0


@pytest.mark.parametrize("times", [1, 2, 5])
def test_every_preemption_is_counted_and_no_recompute_is_a_hit(times: int) -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=1)
    engine.add(request("a", [1] * 40, max_tokens=60, priority=1))
    for turn in range(times):
        for _ in range(7):
            engine.step()
        engine.add(request(f"urgent{turn}", [4, turn], max_tokens=1))
    engine.finish()
    stats = engine.scheduler.stats
    assert stats.num_preemptions == times
    assert stats.prefix_hits == 0
    assert stats.prefix_queries == stats.prompt_tokens == 40 + 2 * times
    assert stats.generation_tokens == 60 + times
    assert engine.tokens("a") == alone(request("a", [1] * 40, max_tokens=60), eos=frozenset())


def test_penalties_still_see_where_the_prompt_ends() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=1)
    engine.add(request("a", [1] * 10, max_tokens=20, priority=1))
    for _ in range(5):
        engine.step()
    engine.add(request("b", [2], max_tokens=1))
    engine.finish()
    for plan in engine.runner.plans:
        for step in plan.seqs:
            if step.request_id == "a" and step.sample is not None:
                assert step.sample.num_prompt_tokens == 10
