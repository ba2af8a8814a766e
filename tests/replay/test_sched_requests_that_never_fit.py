"""A request larger than the KV pool must not block the queue for ever.

Seen in vllm-project/vllm #16445, #39734, #19861 and sgl-project/sglang #3910: a prompt at the limit
hangs, and a request that can never fit waits at the head of the queue while all others starve.
"""

from __future__ import annotations

import pytest

from stoker.core.errors import ContextLengthExceeded, ExceedsCapacity
from stoker.core.request import FinishReason
from tests.support.scheduling import Engine, request


def test_what_never_fits_is_refused_at_once_and_the_next_request_runs() -> None:
    engine = Engine(num_pages=4, max_model_len=256)
    with pytest.raises(ExceedsCapacity, match=r"201 tokens.*64"):
        engine.scheduler.add(request("large", [1] * 200, max_tokens=1))
    assert not engine.scheduler.has_work
    engine.add(request("small", [1] * 10, max_tokens=3, ignore_eos=True))
    engine.finish()
    assert len(engine.tokens("small")) == 3


@pytest.mark.parametrize("length", [62, 63])
def test_a_prompt_just_below_the_limit_gets_what_is_left(length: int) -> None:
    engine = Engine(num_pages=4, max_model_len=64)
    engine.add(request("a", [1] * length, max_tokens=1000, ignore_eos=True))
    engine.finish()
    assert len(engine.tokens("a")) == 64 - length
    assert engine.end("a").finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("length", [64, 65])
def test_a_prompt_at_the_limit_is_refused_with_both_numbers(length: int) -> None:
    engine = Engine(num_pages=4, max_model_len=64)
    with pytest.raises(ContextLengthExceeded, match=f"{length} tokens.*64"):
        engine.scheduler.add(request("a", [1] * length))


def test_an_output_that_outgrows_a_shared_pool_ends_all_the_same() -> None:
    """Each fits alone, together they do not: they take turns instead of waiting for each other."""
    engine = Engine(num_pages=4, max_model_len=64, eos=frozenset())
    engine.add(request("a", [1] * 20), request("b", [2] * 20))
    engine.finish()
    assert (len(engine.tokens("a")), len(engine.tokens("b"))) == (44, 44)
