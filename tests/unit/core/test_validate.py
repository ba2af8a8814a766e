"""Range checks: the bounds themselves pass, one step beyond is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.core.errors import ContextLengthExceeded, InvalidRequest
from stoker.core.request import SamplingParams
from stoker.core.validate import (
    MAX_CHOICES,
    MAX_LOGIT_BIAS,
    MAX_LOGPROBS,
    MAX_STOP_STRINGS,
    check_prompt,
    check_sampling,
)

VOCAB = 2000


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 2.0},
        {"top_p": 1.0, "min_p": 1.0, "top_k": 0},
        {"min_p": 0.0, "top_p": 1e-9, "top_k": 2**31 - 1},
        {"repetition_penalty": 2.0, "presence_penalty": -2.0, "frequency_penalty": 2.0},
        {"n": MAX_CHOICES, "logprobs": MAX_LOGPROBS},
        {"logprobs": 0, "max_tokens": 1, "min_tokens": 1},
        {"seed": -(2**63)},
        {"seed": 2**64 - 1},
        {"stop": ("a",) * MAX_STOP_STRINGS},
        {"stop_token_ids": (0, VOCAB - 1)},
        {"logit_bias": dict.fromkeys(range(MAX_LOGIT_BIAS), -100.0)},
    ],
)
def test_bounds_are_allowed(fields: dict[str, Any]) -> None:
    check_sampling(SamplingParams(**fields), VOCAB)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.01),
        ("temperature", 2.01),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("min_p", -0.01),
        ("min_p", 1.01),
        ("top_k", -1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 2.01),
        ("presence_penalty", -2.01),
        ("frequency_penalty", 2.01),
        ("n", 0),
        ("n", MAX_CHOICES + 1),
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
        ("min_tokens", -1),
        ("max_tokens", -1),
        ("logprobs", -1),
        ("logprobs", MAX_LOGPROBS + 1),
        ("prompt_logprobs", -1),
        ("prompt_logprobs", MAX_LOGPROBS + 1),
        ("stop", ("a",) * (MAX_STOP_STRINGS + 1)),
        ("stop", ("a", "")),
        ("stop", "END"),
        ("stop_token_ids", (VOCAB,)),
        ("stop_token_ids", (-1,)),
        ("logit_bias", {VOCAB: 1.0}),
        ("logit_bias", {0: 100.5}),
        ("logit_bias", {0: float("nan")}),
        ("logit_bias", dict.fromkeys(range(MAX_LOGIT_BIAS + 1), 0.0)),
    ],
)
def test_beyond_the_bounds_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_sampling(SamplingParams(**{name: value}), VOCAB)
    assert refusal.value.param == name
    assert name in refusal.value.message


def test_min_tokens_above_max_tokens_names_both() -> None:
    with pytest.raises(InvalidRequest, match="min_tokens is 3, but max_tokens is 2"):
        check_sampling(SamplingParams(min_tokens=3, max_tokens=2), VOCAB)


def test_prompts() -> None:
    check_prompt([0, VOCAB - 1], VOCAB, 3, "prompt")
    with pytest.raises(ContextLengthExceeded, match=r"3 tokens.*context is 3") as refusal:
        check_prompt([0] * 3, VOCAB, 3, "messages")
    check_prompt([0] * 3, VOCAB, 3, "prompt", max_tokens=0)  # fills the context to the end
    with pytest.raises(ContextLengthExceeded, match=r"4 tokens.*context is 3"):
        check_prompt([0] * 4, VOCAB, 3, "prompt", max_tokens=0)
    assert refusal.value.param == "messages"
    assert refusal.value.code == "context_length_exceeded"
    for bad in ([], [VOCAB], [5, -1]):
        with pytest.raises(InvalidRequest) as wrong:
            check_prompt(bad, VOCAB, 9, "prompt")
        assert wrong.value.param == "prompt"
