"""A prefix page must never cross a salt or a model, even where names collide.

Seen in vllm-project/vllm #44701, #30931, #3264, #44250 and sgl-project/sglang #24638: the salt, the
adapter and the model go into one key without saying which is which, so equal names share pages.
"""

from __future__ import annotations

import itertools

import pytest

from stoker.memory.manager import MemoryManager
from tests.support.scheduling import Engine, alone, layout, request

TOKENS = [n % 11 for n in range(50)]


def test_the_same_text_as_domain_and_as_salt_names_different_pages() -> None:
    names = [None, "", "adapter", "model", "modeladapter", "adaptermodel"]
    roots = [
        MemoryManager(layout(None), 4, True, domain or "").open(TOKENS, salt).hashes[0]
        for domain, salt in itertools.product(names[1:], names)
    ]
    assert len(set(roots)) == len(roots)


@pytest.mark.parametrize("salt", [None, "", "model/f32", "tenant"])
def test_only_requests_of_one_salt_share(salt: str | None) -> None:
    """`model/f32` is the domain of this engine."""
    engine = Engine()
    for number, other in enumerate([None, "", "model/f32", "tenant"]):
        engine.add(request(f"w{number}", TOKENS, max_tokens=1, cache_salt=other))
        engine.finish()
        assert engine.end(f"w{number}").num_cached_tokens == 0
    item = request("r", TOKENS, max_tokens=9, cache_salt=salt)
    engine.add(item)
    engine.finish()
    assert engine.end("r").num_cached_tokens == 48
    assert engine.tokens("r") == alone(item)


def test_followers_of_another_salt_do_not_wait() -> None:
    engine = Engine(max_num_batched_tokens=64)
    engine.add(*(request(name, TOKENS, max_tokens=1, cache_salt=name) for name in "ab"))
    plan = engine.step()
    assert plan is not None
    assert [step.request_id for step in plan.seqs] == ["a", "b"]
