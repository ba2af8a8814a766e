"""Log-probabilities of a prompt must not depend on what the prefix cache holds.

Seen in vllm-project/vllm #42019, #5344, #3251, #8268 (case 15): with the prefix cache on, such a
request met an assertion, or got values that depended on what ran before it. Here it skips the read
of the cache, still writes to it, and is asked for each row once, whatever cuts it.
"""

from __future__ import annotations

import itertools
import struct

import pytest

from stoker.core.errors import InvalidRequest
from stoker.core.request import FinishReason
from tests.support.scheduling import Engine, alone, request

PROMPT = [n % 7 for n in range(100)]


def scores(engine: Engine, name: str) -> list[tuple[int, float]]:
    entries = [entry for event in engine.events[name] for entry in event.prompt_logprobs]
    return [(entry.token_id, entry.logprob) for entry in entries]


EXPECTED = [(token, -1.0 - before) for before, token in itertools.pairwise(PROMPT)]


@pytest.mark.parametrize("order", ["scored first", "plain first"])
@pytest.mark.parametrize("prefix_caching", [False, True])
@pytest.mark.parametrize("budget", [16, 24, 256])
def test_same_values_in_any_order_with_and_without_cache(
    order: str, prefix_caching: bool, budget: int
) -> None:
    engine = Engine(max_num_batched_tokens=budget, prefix_caching=prefix_caching)
    names = ["plain", "scored"] if order == "plain first" else ["scored", "plain"]
    for name in names:
        extra = {"prompt_logprobs": 1} if name == "scored" else {}
        engine.add(request(name, PROMPT, max_tokens=3, ignore_eos=True, **extra))
        engine.finish()
    assert scores(engine, "scored") == EXPECTED
    assert scores(engine, "plain") == []
    assert engine.end("scored").num_cached_tokens == 0
    wrote = order == "scored first" and prefix_caching
    assert engine.end("plain").num_cached_tokens == (96 if wrote else 0)
    assert engine.tokens("scored") == alone(request("x", PROMPT, max_tokens=3, ignore_eos=True))


@pytest.mark.parametrize("steps", range(6))
def test_a_preempted_request_is_asked_for_each_row_once(steps: int) -> None:
    engine = Engine(max_num_seqs=1, max_num_batched_tokens=24)
    engine.add(request("a", PROMPT, prompt_logprobs=0, max_tokens=5, priority=1, ignore_eos=True))
    for _ in range(steps):
        engine.step()
    engine.add(request("urgent", [3] * 40, max_tokens=1))
    engine.finish()
    assert scores(engine, "a") == EXPECTED
    assert len(engine.tokens("a")) == 5


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("steps", range(5))
def test_an_embedding_sums_each_row_once(pooling: str, steps: int) -> None:
    engine = Engine(max_num_seqs=1, max_num_batched_tokens=24)
    engine.add(request("warm", PROMPT, max_tokens=1))
    engine.finish()
    engine.add(request("a", PROMPT, max_tokens=0, pooling=pooling, priority=1))
    for _ in range(steps):
        engine.step()
    engine.add(request("urgent", [3] * 40, max_tokens=1))
    engine.finish()
    end = engine.end("a")
    assert end.finish_reason is FinishReason.LENGTH and end.token_ids == ()
    value, rows = struct.unpack("<2f", end.embedding)
    assert (value, rows) == (
        (PROMPT[-1], 1) if pooling == "last" else (pytest.approx(sum(PROMPT) / 100), 100)
    )
    assert end.num_cached_tokens == (96 if pooling == "last" else 0)


def test_a_request_for_no_tokens_computes_its_prompt_and_ends() -> None:
    engine = Engine(max_model_len=100)
    engine.add(request("a", PROMPT, max_tokens=0))  # fills the context to the end
    engine.finish()
    assert engine.end("a").finish_reason is FinishReason.LENGTH
    assert engine.tokens("a") == []
    assert engine.scheduler.stats.prompt_tokens == 100
    engine.add(request("b", PROMPT[:90], max_tokens=1))
    engine.finish()
    assert engine.end("b").num_cached_tokens == 80


def test_a_request_for_an_embedding_that_would_draw_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="max_tokens is 3"):
        Engine().add(request("a", PROMPT, max_tokens=3, pooling="last"))


def test_followers_do_not_wait_for_pages_that_they_may_not_read() -> None:
    engine = Engine(max_num_batched_tokens=64)
    engine.add(request("leader", PROMPT, max_tokens=1, ignore_eos=True))
    engine.step()
    engine.add(request("scored", PROMPT, prompt_logprobs=0, max_tokens=1, ignore_eos=True))
    plan = engine.step()
    assert plan is not None
    assert [step.request_id for step in plan.seqs] == ["leader", "scored"]
    engine.finish()
    assert scores(engine, "scored") == EXPECTED
