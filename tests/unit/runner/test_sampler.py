from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from stoker.core.config import KernelName
from stoker.core.plan import SampleSpec, SeqStep
from stoker.core.request import MIN_LOGPROB, SamplingParams
from stoker.kernels.dispatch import get_ops
from stoker.kernels.reference import ReferenceOps
from stoker.runner.sampler import draw, draws

GREEDY = SamplingParams(temperature=0.0)


def _seq(name: str, params: SamplingParams, **spec: Any) -> SeqStep:
    return SeqStep(name, [1], 2, ([0],), SampleSpec(params, 0, [0, 1, 1], 2, **spec))


def test_each_row_follows_its_own_request() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]]).repeat(3, 1)
    seqs = [
        _seq("a", GREEDY),
        _seq("b", replace(GREEDY, logit_bias={1: -5.0})),
        _seq("c", GREEDY, banned_token_ids=(1, 2)),
    ]
    results = draw(ReferenceOps(), logits, seqs)
    assert [(r.request_id, r.token_ids) for r in results] == [("a", (1,)), ("b", (2,)), ("c", (0,))]
    assert torch.equal(logits[0], logits[2]), "the model's own logits were changed"


def test_logprobs_are_the_models_own_and_cut_to_each_request() -> None:
    logits = torch.tensor([[0.0, math.log(2.0), math.log(5.0)]]).repeat(3, 1)
    seqs = [
        _seq("a", replace(GREEDY, logprobs=2, logit_bias={0: 50.0})),
        _seq("b", GREEDY),
        _seq("c", replace(GREEDY, logprobs=0, temperature=0.0)),
    ]
    a, b, c = draw(ReferenceOps(), logits, seqs)
    assert a.token_ids == (0,) and a.logprobs is not None
    entry = a.logprobs[0]
    assert entry.token_id == 0 and entry.logprob == pytest.approx(math.log(1 / 8), abs=1e-6)
    assert entry.top_ids == (2, 1)
    assert entry.top_logprobs == pytest.approx((math.log(5 / 8), math.log(2 / 8)), abs=1e-6)
    assert b.logprobs is None
    assert c.logprobs is not None and c.logprobs[0].top_ids == ()


def test_logprobs_are_finite() -> None:
    logits = torch.tensor([[0.0, 3e38]])
    (result,) = draw(ReferenceOps(), logits, [_seq("a", replace(GREEDY, logprobs=2))])
    assert result.logprobs is not None
    assert result.logprobs[0].top_logprobs == (0.0, MIN_LOGPROB)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_row_fails_its_sequence_alone(bad: float) -> None:
    logits = torch.tensor([[0.0, 1.0], [0.0, bad], [1.0, 0.0]])
    params = replace(GREEDY, logprobs=1)
    a, b, c = draw(ReferenceOps(), logits, [_seq(name, params) for name in "abc"])
    assert (a.token_ids, a.error, c.token_ids, c.error) == ((1,), None, (0,), None)
    assert b.token_ids == () and b.logprobs is None
    assert b.error is not None and "model's logits" in b.error and "position 3" in b.error


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_request_that_leaves_no_token_fails_alone(temperature: float) -> None:
    params = SamplingParams(temperature=temperature)
    nothing = _seq("a", params, banned_token_ids=(0, 1))
    tiny = _seq("b", replace(params, repetition_penalty=5e-324), banned_token_ids=(0,))
    good = _seq("c", GREEDY)
    a, b, c = draw(ReferenceOps(), torch.tensor([[0.5, 1.0]]).repeat(3, 1), [nothing, tiny, good])
    assert a.error is not None and "bias and penalties" in a.error and a.token_ids == ()
    assert b.token_ids == (1,) and b.error is None
    assert c.token_ids == (1,)


def test_a_token_that_the_model_excludes_is_never_drawn() -> None:
    logits = torch.tensor([[-math.inf, 1.0]])
    (result,) = draw(ReferenceOps(), logits, [_seq("a", SamplingParams(temperature=9.0))])
    assert result.token_ids == (1,)


def test_draws_are_keyed_by_seed_choice_and_position() -> None:
    (draw_,) = draws([SampleSpec(SamplingParams(seed=2**64 - 1), 2, [1, 2], 1)])
    assert (draw_.seed, draw_.choice, draw_.position) == (2**64 - 1, 2, 2)


@pytest.mark.parametrize("kernels", ["cpu", "reference"])
def test_seeds_are_64_bits_of_either_sign(kernels: KernelName) -> None:
    ops = get_ops(kernels, 1)

    def tokens(seed: int) -> list[int]:
        spec = SampleSpec(SamplingParams(seed=seed), 2, [1, 2], 1)
        return [
            token
            for i in range(20)
            for token in ops.sample(
                ops.array(np.zeros((1, 1000), np.float32)), [draws([spec])[0]._replace(position=i)]
            )
        ]

    assert tokens(-1) == tokens(2**64 - 1) != tokens(0)
    assert tokens(2**63) == tokens(-(2**63))
