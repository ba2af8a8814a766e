from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from stoker.core.plan import SampleSpec
from stoker.core.request import SamplingParams
from stoker.runner.logits import adjust, needs_adjusting

PLAIN = SamplingParams()


def _spec(
    params: SamplingParams, history: Sequence[int] = (0, 1), num_prompt: int = 1, **extra: tuple
) -> SampleSpec:
    return SampleSpec(params, 0, list(history), num_prompt, **extra)


def _adjusted(row: Sequence[float], spec: SampleSpec) -> list[float]:
    logits = np.array(row, np.float32)
    adjust(logits, spec)
    return logits.tolist()


def test_a_plain_request_leaves_its_row_alone() -> None:
    assert not needs_adjusting(_spec(PLAIN))
    assert _adjusted([1.0, 2.0], _spec(PLAIN)) == [1.0, 2.0]


@pytest.mark.parametrize(
    "change",
    [
        {"logit_bias": {0: 1.0}},
        {"repetition_penalty": 1.1},
        {"frequency_penalty": -0.1},
        {"presence_penalty": 0.1},
    ],
)
def test_every_adjustment_is_noticed(change: dict) -> None:
    spec = _spec(replace(PLAIN, **change))
    assert needs_adjusting(spec)
    assert _adjusted([1.0, 1.0], spec) != [1.0, 1.0]


def test_bias_is_added() -> None:
    spec = _spec(replace(PLAIN, logit_bias={2: -1.5, 0: 4.0}))
    assert _adjusted([1.0, 1.0, 1.0], spec) == [5.0, 1.0, -0.5]


def test_banned_tokens_cannot_be_drawn_however_biased() -> None:
    spec = _spec(replace(PLAIN, logit_bias={1: 100.0}), banned_token_ids=(1,))
    assert _adjusted([0.0, 0.0], spec) == [0.0, -math.inf]


def test_only_allowed_tokens_are_left() -> None:
    spec = _spec(replace(PLAIN, allowed_token_ids=(0, 2)))
    assert needs_adjusting(spec)
    assert _adjusted([1.0, 2.0, 3.0], spec) == [1.0, -math.inf, 3.0]


@pytest.mark.parametrize(
    ("output", "banned"),
    [([], {3}), ([1], {3, 2}), ([1, 2], {3, 0}), ([2, 1], {3, 2}), ([2], {3})],
)
def test_the_last_token_of_a_bad_word_is_banned_after_the_others(
    output: list[int], banned: set[int]
) -> None:
    """The prompt's own tokens do not count: it ends with 1, 2 here."""
    params = replace(PLAIN, bad_words=((3,), (1, 2), (1, 2, 0)))
    spec = _spec(params, history=[1, 2, *output], num_prompt=2)
    assert needs_adjusting(spec)
    row = _adjusted([1.0] * 4, spec)
    assert {i for i, value in enumerate(row) if value == -math.inf} == banned


def test_repetition_counts_prompt_and_output_and_depends_on_sign() -> None:
    spec = _spec(replace(PLAIN, repetition_penalty=2.0), history=[0, 0, 1], num_prompt=2)
    assert _adjusted([4.0, -4.0, 4.0], spec) == [2.0, -8.0, 4.0]


def test_frequency_and_presence_count_the_output_alone() -> None:
    spec = _spec(
        replace(PLAIN, frequency_penalty=0.5, presence_penalty=1.0),
        history=[0, 0, 1, 2, 1],
        num_prompt=2,
    )
    assert _adjusted([3.0, 3.0, 3.0, 3.0], spec) == [3.0, 1.0, 1.5, 3.0]


def test_the_order_is_bias_then_repetition_then_frequency() -> None:
    spec = _spec(
        replace(PLAIN, logit_bias={1: 3.0}, repetition_penalty=2.0, presence_penalty=0.5),
        history=[0, 1],
        num_prompt=1,
    )
    assert _adjusted([0.0, 1.0], spec) == [0.0, (1.0 + 3.0) / 2.0 - 0.5]


def test_ids_outside_the_vocabulary_are_no_error() -> None:
    spec = _spec(replace(PLAIN, logit_bias={99: 1.0, 1: 2.0}), banned_token_ids=(-1, 77))
    assert _adjusted([0.0, 0.0], spec) == [0.0, 2.0]


def test_the_smallest_repetition_penalty_leaves_numbers_to_draw_from() -> None:
    params = replace(PLAIN, repetition_penalty=5e-324)
    row = _adjusted([2.0, -2.0, 1.0, 5.0], _spec(params, (0, 1, 3), banned_token_ids=(3,)))
    assert all(map(math.isfinite, row[:3]))
    assert max(row) == row[0]
    assert row[3] == -math.inf
