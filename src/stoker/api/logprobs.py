"""Log-probabilities as the OpenAI formats, and vLLM's for prompts, spell them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.api.protocols import Tokenizer
from stoker.core.request import MIN_LOGPROB, TokenLogprobs
from stoker.text.detokenize import Detokenizer


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a token is written in an answer."""

    tokenizer: Tokenizer
    as_ids: bool = False
    """`token_id:17` for every token: texts of two tokens may be equal, numbers never are."""

    def __call__(self, token_id: int) -> str:
        return f"token_id:{token_id}" if self.as_ids else token_text(token_id, self.tokenizer)


class TextOffsets:
    """Where in a text each token begins: the number of characters that are complete before it.

    A special token that is left out of the text has no width, and of a character that is spread
    over several tokens the last one has it all.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt_ids: Sequence[int], skip_special_tokens: bool
    ) -> None:
        """`prompt_ids`: what comes before the text and is no part of it."""
        self._detokenizer = Detokenizer(tokenizer, prompt_ids, skip_special_tokens)
        self._length = 0

    def pass_over(self, token_id: int) -> int:
        """The offset of the next token."""
        offset = self._length
        self._length += len(self._detokenizer.push([token_id]))
        return offset


def chat_logprobs(
    entries: Sequence[TokenLogprobs], spell: Spelling
) -> dict[str, list[dict[str, Any]]]:
    """`choices[].logprobs` of a chat completion: one item per token."""
    return {
        "content": [
            {
                **_chat_token(entry.token_id, entry.logprob, spell),
                "top_logprobs": [
                    _chat_token(token_id, logprob, spell)
                    for token_id, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True)
                ],
            }
            for entry in entries
        ]
    }


def completion_logprobs(
    entries: Sequence[TokenLogprobs], spell: Spelling, offsets: TextOffsets
) -> dict[str, list[Any]]:
    """`choices[].logprobs` of a text completion: parallel lists. `offsets` stands before the first
    of these tokens, and goes on."""
    return {
        "tokens": [spell(entry.token_id) for entry in entries],
        "token_logprobs": [_finite(entry.logprob) for entry in entries],
        "top_logprobs": [_top(entry, spell) for entry in entries],
        "text_offset": [offsets.pass_over(entry.token_id) for entry in entries],
    }


def echoed_logprobs(
    first_id: int,
    entries: Sequence[TokenLogprobs],
    num_top: int,
    spell: Spelling,
    offsets: TextOffsets,
) -> dict[str, list[Any]]:
    """The part of `choices[].logprobs` that an echoed prompt has: nothing says how probable its
    first token is. `num_top`: alternatives to show."""
    first: dict[str, list[Any]] = {
        "tokens": [spell(first_id)],
        "token_logprobs": [None],
        "top_logprobs": [None],
        "text_offset": [offsets.pass_over(first_id)],
    }
    shown = [
        TokenLogprobs(e.token_id, e.logprob, e.top_ids[:num_top], e.top_logprobs[:num_top])
        for e in entries
    ]
    rest = completion_logprobs(shown, spell, offsets)
    return {name: values + rest[name] for name, values in first.items()}


def prompt_logprobs(
    entries: Sequence[TokenLogprobs], num_top: int, tokenizer: Tokenizer
) -> list[dict[str, dict[str, Any]] | None]:
    """`prompt_logprobs` as vLLM spells it: for each token of the prompt an object, token id →
    logprob, rank and text, of the token itself and of the `num_top` most probable; null for the
    first token."""
    return [None, *(_prompt_position(entry, num_top, tokenizer) for entry in entries)]


def token_text(token_id: int, tokenizer: Tokenizer) -> str:
    """The token alone as text; the bytes of a cut character become U+FFFD."""
    raw = tokenizer.token_bytes(token_id)
    return raw.decode("utf-8", "replace") if raw else tokenizer.id_to_piece(token_id)


def _prompt_position(
    entry: TokenLogprobs, num_top: int, tokenizer: Tokenizer
) -> dict[str, dict[str, Any]]:
    ranked: list[tuple[int, float, int | None]] = [(entry.token_id, entry.logprob, entry.rank)]
    top = zip(entry.top_ids[:num_top], entry.top_logprobs[:num_top], strict=True)
    ranked += [(token_id, logprob, rank) for rank, (token_id, logprob) in enumerate(top, 1)]
    return {
        str(token_id): {
            "logprob": _finite(logprob),
            "rank": rank,
            "decoded_token": token_text(token_id, tokenizer),
        }
        for token_id, logprob, rank in ranked
    }


def _chat_token(token_id: int, logprob: float, spell: Spelling) -> dict[str, Any]:
    return {
        "token": spell(token_id),
        "logprob": _finite(logprob),
        "bytes": list(spell.tokenizer.token_bytes(token_id)),
    }


def _top(entry: TokenLogprobs, spell: Spelling) -> dict[str, float]:
    """Text → logprob of the most probable tokens and the drawn one; the first of a text wins."""
    top: dict[str, float] = {}
    for token_id, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True):
        top.setdefault(spell(token_id), _finite(logprob))
    top.setdefault(spell(entry.token_id), _finite(entry.logprob))
    return top


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else MIN_LOGPROB
