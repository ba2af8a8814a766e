"""Log-probabilities as the two OpenAI formats spell them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stoker.api.protocols import Tokenizer
from stoker.core.request import MIN_LOGPROB, TokenLogprobs


def chat_logprobs(
    entries: Sequence[TokenLogprobs], tokenizer: Tokenizer
) -> dict[str, list[dict[str, Any]]]:
    """`choices[].logprobs` of a chat completion: one item per token."""
    return {
        "content": [
            {
                **_chat_token(entry.token_id, entry.logprob, tokenizer),
                "top_logprobs": [
                    _chat_token(token_id, logprob, tokenizer)
                    for token_id, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True)
                ],
            }
            for entry in entries
        ]
    }


def completion_logprobs(
    entries: Sequence[TokenLogprobs], tokenizer: Tokenizer, offset: int
) -> dict[str, list[Any]]:
    """`choices[].logprobs` of a text completion: parallel lists.

    `offset`: characters of the choice before the first of these tokens.
    """
    tokens: list[str] = []
    offsets: list[int] = []
    for entry in entries:
        tokens.append(token_text(entry.token_id, tokenizer))
        offsets.append(offset)
        offset += len(tokens[-1])
    return {
        "tokens": tokens,
        "token_logprobs": [_finite(entry.logprob) for entry in entries],
        "top_logprobs": [_top(entry, tokenizer) for entry in entries],
        "text_offset": offsets,
    }


def token_text(token_id: int, tokenizer: Tokenizer) -> str:
    """The token alone as text; the bytes of a cut character become U+FFFD."""
    raw = tokenizer.token_bytes(token_id)
    return raw.decode("utf-8", "replace") if raw else tokenizer.id_to_piece(token_id)


def _chat_token(token_id: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "token": token_text(token_id, tokenizer),
        "logprob": _finite(logprob),
        "bytes": list(tokenizer.token_bytes(token_id)),
    }


def _top(entry: TokenLogprobs, tokenizer: Tokenizer) -> dict[str, float]:
    """Text → logprob of the most probable tokens and the drawn one; the first of a text wins."""
    top: dict[str, float] = {}
    for token_id, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True):
        top.setdefault(token_text(token_id, tokenizer), _finite(logprob))
    top.setdefault(token_text(entry.token_id, tokenizer), _finite(entry.logprob))
    return top


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else MIN_LOGPROB
