"""sample and logprobs of the native set against the reference: the same token, not a near one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.kernels.ops import Draw
from tests.support.kernels import ISAS, REFERENCE, native


def draws(count: int, **given: Any) -> list[Draw]:
    """One set of draws for all rows; positions count up from `position`."""
    plain = Draw(1.0, 1.0, 0.0, 0, seed=0, choice=0, position=0)._replace(**given)
    return [plain._replace(position=plain.position + i) for i in range(count)]


def logits(rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


@settings(max_examples=60, deadline=None)
@given(
    vocab=st.integers(1, 200),
    whole_numbers=st.booleans(),
    temperature=st.sampled_from([0.0, 0.01, 0.7, 1.0, 2.0]),
    top_p=st.sampled_from([1.0, 0.999999, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 50, 1000]),
    seed=st.integers(-(2**63), 2**63 - 1),
    choice=st.integers(0, 127),
    position=st.integers(0, 2**40),
)
def test_sample_draws_the_reference_token(vocab: int, whole_numbers: bool, **given: Any) -> None:
    scores = logits(8, vocab)
    if whole_numbers:  # many ties
        scores = scores.round()
    scores[:, ::5] = -torch.inf
    scores[:, vocab // 2] = 1.0
    wanted = REFERENCE.sample(scores, draws(8, **given))
    assert native(ISAS[0]).sample(scores, draws(8, **given)) == wanted


def test_sample_draws_the_reference_token_from_a_large_vocabulary() -> None:
    scores = logits(6, 60_000)
    for options in (
        {},
        {"top_p": 0.95},
        {"top_k": 40, "top_p": 0.9},
        {"top_k": 2000},
        {"min_p": 0.1},
        {"min_p": 0.001, "temperature": 2.0},
    ):
        wanted = REFERENCE.sample(scores, draws(6, seed=11, **options))
        assert native(ISAS[0]).sample(scores, draws(6, seed=11, **options)) == wanted


def test_a_draw_does_not_depend_on_the_batch() -> None:
    scores, drawn = logits(9, 500), draws(9, seed=3, position=70)
    together = native(ISAS[0], 2).sample(scores, drawn)
    for i in range(9):
        alone = draws(1, seed=3, position=70 + i)
        assert native(ISAS[0], 1).sample(scores[i : i + 1], alone)[0] == together[i]


def test_greedy_ties_go_to_the_lowest_id() -> None:
    scores = torch.tensor([[0.0, 2.0, 2.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    assert native(ISAS[0]).sample(scores, draws(2, temperature=0.0)) == [1, 0]


def test_frequencies_follow_the_probabilities() -> None:
    # 20,000 draws: five standard deviations are at most 0.018.
    probabilities = torch.tensor([0.5, 0.25, 0.125, 0.125])
    scores = probabilities.log().repeat(20_000, 1)
    drawn = native(ISAS[0]).sample(scores, draws(20_000, seed=1))
    frequencies = torch.bincount(torch.tensor(drawn), minlength=4) / 20_000
    torch.testing.assert_close(frequencies, probabilities, rtol=0, atol=0.018)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("vocab", [10, 64, 129])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_nothing_is_drawn_from_impossible_logits(poison: float, vocab: int, isa: str) -> None:
    scores = torch.full((4, vocab), -1.0)
    scores[1, vocab - 1] = scores[2, 0] = poison
    scores[3] = poison
    for options in ({"temperature": 0.0}, {}, {"top_p": 0.5, "top_k": 3}):
        drawn = native(isa).sample(scores, draws(4, **options))
        assert drawn == REFERENCE.sample(scores, draws(4, **options))
        lenient = poison == -float("inf")  # one token that is impossible leaves the others
        assert [token >= 0 for token in drawn] == [True, lenient, lenient, False]


@pytest.mark.parametrize("k", [0, 1, 20])
def test_logprobs_equal_the_reference(k: int) -> None:
    scores = logits(7, 1000).round()  # ties, which go to the lower id
    tokens = np.arange(7, dtype=np.int32) * 100
    got = native(ISAS[0]).logprobs(scores, tokens, k)
    wanted = REFERENCE.logprobs(scores, tokens, k)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-6, atol=1e-6)
    assert np.array_equal(got[1], wanted[1])
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-6, atol=1e-6)
