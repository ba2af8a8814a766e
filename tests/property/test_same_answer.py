"""The promise of the house on the native kernels, bit for bit.

The same request gives the same answer whatever the batch, the chunks of its prompt, the prefix
cache and preemption.

Log-probabilities are compared for equality too, so a changed last bit of a logit is seen even where
it does not change the token.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.model import ModelConfig, kv_layout
from stoker.core.request import Pooling, Request, SamplingParams
from stoker.kernels.dispatch import get_ops
from stoker.kernels.ops import Ops
from stoker.models.model import Model
from stoker.models.registry import build_model
from stoker.weights.checkpoint import open_checkpoint
from tests.support.answers import Answer, Conditions, System
from tests.support.checkpoints import VOCAB, make_tiny, write_gguf
from tests.support.paged import PagedModel

LAYERS = 2
INT4 = ("attn_q", "attn_output", "ffn_gate", "ffn_down")
POOLINGS: tuple[Pooling, ...] = ("last", "mean")
INT8 = ("attn_k", "attn_v", "ffn_up")


@dataclass(frozen=True)
class Loaded:
    model: Model
    config: ModelConfig
    ops: Ops

    def system(self, conditions: Conditions) -> System:
        return System(self.model, self.config, self.ops, conditions)

    def alone(self, request: Request) -> Answer:
        """The yardstick: nothing else runs, the whole prompt in one step, nothing cached."""
        return self.system(Conditions()).answer([request])[request.id]


def _write_quantized(path: Path) -> None:
    kinds = {"token_embd.weight": "Q8_0", "output.weight": "Q4_0"}
    for layer in range(LAYERS):
        kinds |= {f"blk.{layer}.{name}.weight": "Q4_1" for name in INT4}
        kinds |= {f"blk.{layer}.{name}.weight": "Q8_0" for name in INT8}
    write_gguf(path, quant=kinds, layers=LAYERS)


@pytest.fixture(scope="module", params=["llama-f32", "gemma3-f32", "llama-int4-int8"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    path = tmp_path_factory.mktemp(request.param)
    if request.param == "llama-int4-int8":
        path /= "model.gguf"
        _write_quantized(path)
    else:
        make_tiny(request.param.removesuffix("-f32"), path)
    checkpoint = open_checkpoint(str(path))
    ops = get_ops("cpu", 2)
    model = build_model(checkpoint.config, checkpoint, ops, lambda done, total: None)
    return Loaded(model, checkpoint.config, ops)


def _params(number: int) -> SamplingParams:
    """Sampling of many kinds; every one asks for logprobs."""
    plain = SamplingParams(max_tokens=12, seed=number, n=3, logprobs=5, temperature=0.9)
    kinds = (
        plain,
        replace(plain, temperature=0.0),
        replace(plain, top_p=0.9, top_k=40),
        replace(plain, min_p=0.02, repetition_penalty=1.2),
        replace(plain, presence_penalty=0.7, frequency_penalty=0.4, logit_bias={5: 3.0, 9: -4.0}),
        replace(plain, temperature=1.5, stop_token_ids=(7,), min_tokens=3),
        replace(plain, prompt_logprobs=3),
    )
    return kinds[number % len(kinds)]


def _request(number: int, prompt_len: int, *, shared_prefix: int = 0) -> Request:
    """Request `number`; its first `shared_prefix` tokens are those of every other request."""
    common = random.Random(0).choices(range(VOCAB), k=512)[:shared_prefix]
    own = random.Random(number + 1).choices(range(VOCAB), k=prompt_len - len(common))
    return Request(
        id=f"r{number}",
        prompt_token_ids=common + own,
        params=_params(number),
        choice=number % 3,
    )


def _pooled(request: Request, pooling: Pooling) -> Request:
    """A request for an embedding of the same prompt."""
    return replace(request, params=SamplingParams(max_tokens=0), choice=0, pooling=pooling)


def test_batched_equals_alone(loaded: Loaded) -> None:
    requests = [_request(i, 3 + 11 * i) for i in range(7)]
    got = loaded.system(Conditions(steps_between_arrivals=1)).answer(requests)
    for request in requests:
        assert got[request.id] == loaded.alone(request)


@pytest.mark.parametrize("budget", [1, 7, 16, 33])
def test_any_chunk_equals_whole(loaded: Loaded, budget: int) -> None:
    request = _request(2, 90)
    got = loaded.system(Conditions(budget=budget, max_num_seqs=1)).answer([request])
    assert got[request.id] == loaded.alone(request)


def test_prefix_hit_equals_cold(loaded: Loaded) -> None:
    system = loaded.system(Conditions(prefix_caching=True))
    requests = [_request(i, 70, shared_prefix=50) for i in range(5)]
    system.answer(requests[:1])
    got = system.answer(requests[1:])
    assert system.stats.prefix_hits >= 4 * 48
    for request in requests[1:]:
        assert got[request.id] == loaded.alone(request)


def test_repeated_prompt_equals_cold(loaded: Loaded) -> None:
    """A hit on the whole prompt leaves one page or less to compute."""
    system = loaded.system(Conditions(prefix_caching=True))
    request = _request(0, 64)
    first = system.answer([request])[request.id]
    assert system.answer([request])[request.id] == first == loaded.alone(request)


def test_preempted_equals_undisturbed(loaded: Loaded) -> None:
    """Each newcomer is more urgent than those before, and the pool holds hardly more than one."""
    requests = [replace(_request(i, 40), priority=-i) for i in range(5)]
    pages = kv_layout(loaded.config, "bf16").pages_needed(40 + 12, 16)
    for caching in (False, True):
        tight = Conditions(
            num_pages=pages * 3 // 2,
            budget=16,
            max_num_seqs=5,
            prefix_caching=caching,
            steps_between_arrivals=6,
        )
        system = loaded.system(tight)
        got = system.answer(requests)
        assert system.stats.num_preemptions > 1
        for request in requests:
            assert got[request.id] == loaded.alone(request)


@pytest.mark.parametrize("budget", [5, 16, 512])
@pytest.mark.parametrize("caching", [False, True])
def test_what_is_read_of_a_prompt_is_the_same_under_any_conditions(
    loaded: Loaded, budget: int, caching: bool
) -> None:
    """Log-probabilities of the prompt and embeddings, in a tight pool, after others of the same
    prefix, and before: such a request fills the cache for those that follow it."""
    requests = [_request(n, 40 + n, shared_prefix=33) for n in (6, 1, 13, 2)]
    requests += [
        replace(_pooled(item, pooling), id=f"{pooling}{item.id}", priority=1)
        for item in requests
        for pooling in POOLINGS
    ]
    requests += [replace(item, id=f"urgent {item.id}", priority=-1) for item in requests]
    pages = kv_layout(loaded.config, "bf16").pages_needed(54 + 12, budget)
    conditions = Conditions(
        budget=budget,
        max_num_seqs=5,
        num_pages=2 * pages,
        prefix_caching=caching,
        steps_between_arrivals=2,
    )
    system = loaded.system(conditions)
    got = system.answer(requests)
    assert budget == 512 or system.stats.num_preemptions > 0
    for request in requests:
        want = loaded.alone(request)
        assert got[request.id] == want
        scored = request.params.prompt_logprobs is not None
        assert len(want.prompt_logprobs) == (len(request.prompt_token_ids) - 1) * scored
        assert bool(want.embedding) == (request.pooling is not None)


@st.composite
def _worlds(draw: Callable) -> tuple[list[Request], Conditions]:  # type: ignore[type-arg]
    numbers = draw(st.lists(st.integers(0, 40), min_size=1, max_size=5, unique=True))
    shared = draw(st.sampled_from([0, 16, 40]))
    requests = [
        _request(n, shared + draw(st.integers(1, 60)), shared_prefix=shared) for n in numbers
    ]
    conditions = Conditions(
        budget=draw(st.sampled_from([5, 16, 19, 64, 512])),
        max_num_seqs=draw(st.integers(1, 5)),
        num_pages=draw(st.sampled_from([60, 80, 512])),
        prefix_caching=draw(st.booleans()),
        steps_between_arrivals=draw(st.integers(0, 3)),
    )
    return requests, conditions


@settings(max_examples=8, deadline=None, derandomize=True)
@given(world=_worlds())
def test_no_condition_shows_in_an_answer(
    loaded: Loaded, world: tuple[list[Request], Conditions]
) -> None:
    requests, conditions = world
    got = loaded.system(conditions).answer(requests)
    for request in requests:
        assert got[request.id] == loaded.alone(request)


def test_logits_are_equal_bit_for_bit(loaded: Loaded) -> None:
    """Every logit of every position, not only the ones that sampling looks at."""
    texts = [random.Random(i).choices(range(VOCAB), k=50 + i) for i in range(3)]
    whole = PagedModel(loaded.model, loaded.config, loaded.ops, kv_dtype="bf16", seed=1)
    mixed = PagedModel(loaded.model, loaded.config, loaded.ops, kv_dtype="bf16", seed=2)
    alone, together = [whole.sequence() for _ in texts], [mixed.sequence() for _ in texts]
    for seq, text in zip(alone, texts, strict=True):
        whole.step([(seq, text)])
    shares = random.Random(3)
    while any(len(seq.logits) < len(text) for seq, text in zip(together, texts, strict=True)):
        parts = [
            (seq, text[seq.num_computed : seq.num_computed + shares.choice((1, 1, 2, 9, 17))])
            for seq, text in zip(together, texts, strict=True)
        ]
        mixed.step([part for part in parts if part[1]])
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(np.stack(one.logits), np.stack(other.logits))
