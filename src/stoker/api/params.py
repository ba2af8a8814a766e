"""From a wire body to typed SamplingParams, with the model's own defaults where a field is missing.

After this nothing of JSON is left, and every error names the field as the client spelled it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from stoker.api.protocols import Tokenizer
from stoker.api.schema import ChatRequest, CompletionRequest, SamplingBody
from stoker.core.errors import InvalidRequest, StokerError
from stoker.core.model import GenerationDefaults
from stoker.core.request import SamplingParams

T = TypeVar("T")

COMPLETION_MAX_TOKENS = 16
"""OpenAI's default for /v1/completions. A chat may take the rest of the context."""


def chat_params(
    body: ChatRequest, defaults: GenerationDefaults, tokenizer: Tokenizer
) -> SamplingParams:
    """Raises InvalidRequest where two fields contradict each other."""
    max_tokens = body.max_completion_tokens
    if max_tokens is None:
        max_tokens = body.max_tokens
    elif body.max_tokens not in (None, max_tokens):
        raise InvalidRequest(
            f"max_completion_tokens is {max_tokens}, but max_tokens is {body.max_tokens}: "
            "they mean the same",
            param="max_tokens",
        )
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest(
            f"top_logprobs is {body.top_logprobs}, but logprobs is not true", param="top_logprobs"
        )
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    params = _params(body, defaults, max_tokens, logprobs)
    return replace(
        params, prompt_logprobs=body.prompt_logprobs, bad_words=_bad_words(body, tokenizer)
    )


def completion_params(
    body: CompletionRequest, defaults: GenerationDefaults, tokenizer: Tokenizer
) -> SamplingParams:
    max_tokens = COMPLETION_MAX_TOKENS if body.max_tokens is None else body.max_tokens
    if body.max_tokens is None and body.min_tokens is not None:
        max_tokens = max(max_tokens, body.min_tokens)
    asked = [body.prompt_logprobs, body.logprobs if body.echo else None]
    return replace(
        _params(body, defaults, max_tokens, body.logprobs),
        prompt_logprobs=max((k for k in asked if k is not None), default=None),
        bad_words=_bad_words(body, tokenizer),
    )


def wire_names(body: SamplingBody) -> dict[str, str]:
    """Our name of a parameter → the client's, where the two differ."""
    if not isinstance(body, ChatRequest):
        return {}
    names = {"logprobs": "top_logprobs", "prompt": "messages"}
    if body.max_completion_tokens is not None:
        names["max_tokens"] = "max_completion_tokens"
    return names


@contextmanager
def named_as(names: Mapping[str, str]) -> Iterator[None]:
    """Let an error from below, the engine's among them, speak the client's language."""
    try:
        yield
    except StokerError as error:
        for ours, theirs in names.items():
            if error.param == ours:
                error.param = theirs
            error.message = re.sub(rf"\b{ours}(?= is\b)", theirs, error.message)
        raise


def _params(
    body: SamplingBody,
    defaults: GenerationDefaults,
    max_tokens: int | None,
    logprobs: int | None,
) -> SamplingParams:
    top_k = _given(body.top_k, defaults.top_k)
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=_given(body.min_tokens, 0),
        temperature=_given(body.temperature, defaults.temperature),
        top_k=0 if top_k == -1 else top_k,
        top_p=_given(body.top_p, defaults.top_p),
        min_p=_given(body.min_p, defaults.min_p),
        repetition_penalty=_given(body.repetition_penalty, defaults.repetition_penalty),
        presence_penalty=_given(body.presence_penalty, 0.0),
        frequency_penalty=_given(body.frequency_penalty, 0.0),
        logit_bias=body.logit_bias,
        seed=secrets.randbits(63) if body.seed is None else body.seed,
        n=_given(body.n, 1),
        stop=body.stop or (),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        include_stop_str_in_output=bool(body.include_stop_str_in_output),
        ignore_eos=bool(body.ignore_eos),
        allowed_token_ids=tuple(body.allowed_token_ids or ()),
        skip_special_tokens=body.skip_special_tokens is not False,
        logprobs=logprobs,
    )


def _bad_words(body: SamplingBody, tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    """The tokens of each word, at the start of a text and after a space; each spelling once."""
    spellings = {
        tuple(tokenizer.encode(space + word.lstrip(), False)): None
        for word in body.bad_words or ()
        for space in ("", " ")
    }
    return tuple(tokens for tokens in spellings if tokens)


def _given(value: T | None, default: T) -> T:
    return default if value is None else value
