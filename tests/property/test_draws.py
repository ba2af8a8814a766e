"""Every instruction set draws the token that the reference draws, from rows of every kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stoker.kernels.ops import Draw
from tests.support.kernels import ISAS, REFERENCE, native

Rows = NDArray[np.float32]


def check(scores: Rows, draws: Sequence[Draw]) -> None:
    logits = torch.from_numpy(scores)
    wanted = REFERENCE.sample(logits, list(draws))
    for isa in ISAS:
        assert native(isa).sample(logits, list(draws)) == wanted, isa


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Three rows that may have ties, -inf, all mass on a token, zeros of both signs, or be huge."""
    vocab = draw(st.one_of(st.integers(1, 300), st.sampled_from([64, 128, 1000, 4097])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.0, 0.01, 1.0, 3.0, 30.0, 1e5, 3e37]))
    scores = rng.standard_normal((3, vocab)).astype(np.float32) * np.float32(scale)
    scores += np.float32(draw(st.sampled_from([0.0, 5.0, -1000.0])))
    if draw(st.booleans()):
        scores = scores.round()
    if draw(st.booleans()):
        scores[:, :: draw(st.integers(1, 5))] = -np.inf
    if draw(st.booleans()):
        scores[:, draw(st.integers(0, vocab - 1))] = 3e38
    if draw(st.booleans()):
        scores[scores == 0.0] = -0.0
        scores[0, : vocab // 2] = np.abs(scores[0, : vocab // 2])
    return scores


@settings(max_examples=150, deadline=None)
@given(
    scores=rows(),
    temperature=st.sampled_from([0.0, 1e-300, 1e-3, 0.01, 0.7, 1.0, 2.0, 100.0, 1e300]),
    top_p=st.sampled_from([1.0, 0.999999, 0.9, 0.5, 0.01, 1e-9]),
    min_p=st.sampled_from([0.0, 1e-12, 0.05, 0.5, 1.0]),
    top_k=st.sampled_from([0, 1, 2, 5, 50, 1000, 2**31 - 1]),
    seed=st.integers(-(2**63), 2**63 - 1),
    choice=st.integers(0, 127),
    position=st.integers(0, 2**40),
)
def test_all_sets_draw_the_reference_token(
    scores: Rows,
    temperature: float,
    top_p: float,
    min_p: float,
    top_k: int,
    seed: int,
    choice: int,
    position: int,
) -> None:
    how = Draw(temperature, top_p, min_p, top_k, seed, choice, position)
    check(scores, [how._replace(position=position + row) for row in range(3)])


@pytest.mark.parametrize("vocab", [49_152, 262_144])
@pytest.mark.parametrize("scale", [0.0, 0.5, 4.0])
def test_all_sets_draw_the_reference_token_from_a_large_vocabulary(
    vocab: int, scale: float
) -> None:
    rng = np.random.default_rng(vocab)
    options = [(1.0, 1.0, 0), (0.6, 0.9, 0), (1.0, 0.99, 0), (1.0, 0.5, 40), (2.0, 1.0, 2000)]
    scores = rng.standard_normal((len(options), vocab)).astype(np.float32) * np.float32(scale)
    check(
        scores,
        [Draw(t, top_p, 0.0, top_k, 5, 0, i) for i, (t, top_p, top_k) in enumerate(options)],
    )


@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_draws_follow_softmax(top_p: float) -> None:
    """Chi-square of 200,000 draws from 150 tokens, some of them rare, in three blocks."""
    count = 200_000
    scores = np.random.default_rng(1).standard_normal(150).astype(np.float32) * np.float32(2)
    how = Draw(0.8, top_p, 0.0, 0, seed=9, choice=0, position=0)
    drawn = native(ISAS[0]).sample(
        torch.from_numpy(np.tile(scores, (count, 1))),
        [how._replace(position=i) for i in range(count)],
    )
    p = np.exp(scores.astype(np.float64) / 0.8)
    order = np.argsort(-p)
    kept = order[: int(np.searchsorted(np.cumsum(p[order]), top_p * p.sum())) + 1]
    p[np.setdiff1d(order, kept)] = 0.0
    expected = count * p / p.sum()
    seen = np.bincount(drawn, minlength=150)
    assert not seen[p == 0.0].any()
    often = expected >= 10
    chi2 = ((seen - expected)[often] ** 2 / expected[often]).sum()
    freedom = often.sum() - 1
    assert chi2 < freedom + 4 * np.sqrt(2 * freedom)
