"""Range checks of a request, shared by every way in: HTTP, `LLM`, and the engine's own door."""

from __future__ import annotations

import math

from stoker.core.errors import ContextLengthExceeded, InvalidRequest
from stoker.core.request import SamplingParams

MAX_CHOICES = 128
MAX_LOGPROBS = 20
MAX_STOP_STRINGS = 16
MAX_LOGIT_BIAS = 1024
MAX_BAD_WORDS = 1024


def check_sampling(params: SamplingParams, vocab_size: int) -> None:
    """Raise InvalidRequest naming the first parameter that is out of range."""
    _between("temperature", params.temperature, 0.0, 2.0)
    _between("top_p", params.top_p, 0.0, 1.0, open_low=True)
    _between("min_p", params.min_p, 0.0, 1.0)
    _between("top_k", params.top_k, 0, 2**31 - 1)
    _between("repetition_penalty", params.repetition_penalty, 0.0, 2.0, open_low=True)
    _between("presence_penalty", params.presence_penalty, -2.0, 2.0)
    _between("frequency_penalty", params.frequency_penalty, -2.0, 2.0)
    _between("n", params.n, 1, MAX_CHOICES)
    _between("min_tokens", params.min_tokens, 0, 2**31 - 1)
    _between("seed", params.seed, -(2**63), 2**64 - 1)
    if params.max_tokens is not None:
        _between("max_tokens", params.max_tokens, 0, 2**31 - 1)
        if params.min_tokens > params.max_tokens:
            raise InvalidRequest(
                f"min_tokens is {params.min_tokens}, but max_tokens is {params.max_tokens}",
                param="min_tokens",
            )
    if params.logprobs is not None:
        _between("logprobs", params.logprobs, 0, MAX_LOGPROBS)
    if params.prompt_logprobs is not None:
        _between("prompt_logprobs", params.prompt_logprobs, 0, MAX_LOGPROBS)
    if isinstance(params.stop, str):  # Python would take each of its characters for one
        raise InvalidRequest("stop is a string, but must be a sequence of strings", param="stop")
    if len(params.stop) > MAX_STOP_STRINGS:
        raise InvalidRequest(
            f"stop has {len(params.stop)} strings, but at most {MAX_STOP_STRINGS} are allowed",
            param="stop",
        )
    if any(not text for text in params.stop):
        raise InvalidRequest("stop must not contain an empty string", param="stop")
    for token_id in params.stop_token_ids:
        check_token_id("stop_token_ids", token_id, vocab_size)
    for token_id in params.allowed_token_ids:
        check_token_id("allowed_token_ids", token_id, vocab_size)
    _check_bad_words(params.bad_words, vocab_size)
    _check_bias(params.logit_bias or {}, vocab_size)


def check_prompt(
    token_ids: list[int],
    vocab_size: int,
    max_model_len: int,
    param: str,
    max_tokens: int | None = None,
) -> None:
    """Raise InvalidRequest for an empty or foreign prompt, ContextLengthExceeded for a long one.

    `param` is the name of the field that the client filled: prompt, messages or input. A request
    whose `max_tokens` is 0 may fill the context to the end.
    """
    if not token_ids:
        raise InvalidRequest(f"{param} has no tokens, but needs at least one", param=param)
    room = 0 if max_tokens == 0 else 1
    if len(token_ids) + room > max_model_len:
        needs = " and at least one must be left for the answer" if room else ""
        raise ContextLengthExceeded(
            f"The prompt has {len(token_ids)} tokens, but this model's context is {max_model_len} "
            f"tokens{needs}. Shorten {param}.",
            param=param,
        )
    lowest, highest = min(token_ids), max(token_ids)
    for token_id in (lowest, highest):
        check_token_id(param, token_id, vocab_size)


def check_token_id(param: str, token_id: int, vocab_size: int) -> None:
    if not 0 <= token_id < vocab_size:
        raise InvalidRequest(
            f"{param} has token id {token_id}, but the vocabulary goes from 0 to {vocab_size - 1}",
            param=param,
        )


def _check_bad_words(words: tuple[tuple[int, ...], ...], vocab_size: int) -> None:
    if len(words) > MAX_BAD_WORDS:
        raise InvalidRequest(
            f"bad_words has {len(words)} token sequences, but at most {MAX_BAD_WORDS} are allowed",
            param="bad_words",
        )
    for word in words:
        if not word:
            raise InvalidRequest("bad_words must not contain an empty word", param="bad_words")
        for token_id in word:
            check_token_id("bad_words", token_id, vocab_size)


def _check_bias(bias: dict[int, float], vocab_size: int) -> None:
    if len(bias) > MAX_LOGIT_BIAS:
        raise InvalidRequest(
            f"logit_bias has {len(bias)} entries, but at most {MAX_LOGIT_BIAS} are allowed",
            param="logit_bias",
        )
    for token_id, value in bias.items():
        check_token_id("logit_bias", token_id, vocab_size)
        _between("logit_bias", value, -100.0, 100.0)


def _between(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    """Raise unless low <= value <= high (low < value where `open_low`)."""
    if not math.isfinite(value) or value > high or value < low or (open_low and value == low):
        above = "above" if open_low else "at least"
        raise InvalidRequest(
            f"{name} is {value}, but must be {above} {low} and at most {high}", param=name
        )
