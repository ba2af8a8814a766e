"""n > 1: every choice comes, under its own index, different from the others under one seed.

Seen in vllm-project/vllm #12584, #14280 (PR 16863) and PR 52399: choices missing, mixed up, equal
to each other, or left running when their request is aborted.
"""

from __future__ import annotations

import pytest

from stoker.core.request import FinishReason, Request
from tests.support.scheduling import Engine, alone, request

PROMPT = [n % 13 for n in range(60)]


def choices(n: int) -> list[Request]:
    return [
        request(f"x-{i}", PROMPT, choice=i, n=n, seed=3, temperature=1.0, max_tokens=12)
        for i in range(n)
    ]


@pytest.mark.parametrize("num_pages", [5, 9, 64])
def test_all_choices_come_and_differ_whatever_the_pool(num_pages: int) -> None:
    engine = Engine(num_pages=num_pages, max_num_seqs=8)
    engine.add(*choices(8))
    engine.finish()
    outputs = [engine.tokens(f"x-{i}") for i in range(8)]
    assert outputs == [alone(item) for item in choices(8)]
    assert len({tuple(output) for output in outputs}) == 8


def test_the_prompt_is_computed_once() -> None:
    engine = Engine(max_num_seqs=8)
    engine.add(*choices(8))
    engine.finish()
    assert engine.end("x-0").num_cached_tokens == 0
    assert {engine.end(f"x-{i}").num_cached_tokens for i in range(1, 8)} == {48}


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
def test_they_are_aborted_together(steps: int) -> None:
    engine = Engine()
    engine.add(*choices(8))
    for _ in range(steps):
        engine.step()
    events = engine.abort(*(f"x-{i}" for i in range(8)))
    assert [event.finish_reason for event in events] == [FinishReason.ABORT] * 8
    assert not engine.scheduler.has_work
    assert engine.memory.stats.held == 0
