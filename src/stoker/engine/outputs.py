"""From token events to pieces of text: what a client sees of one choice.

Shared by the client and `LLM`; knows text and tokens, no engine and no tensors. The rules, the same
however the tokens are spread over events:

- `token_ids`, `logprobs` and the completion count hold every token up to and including the one that
  ended the choice, whatever ended it.
- The text of the end-of-sequence or stop token is left out, unless `include_stop_str_in_output`
  asks for it (a special token is then still left out by `skip_special_tokens`).
- A stop string is looked for in the text that follows the first `min_tokens` tokens. Tokens after
  the one that completed it are dropped, even if the engine sent them in the same event.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.core.request import (
    FinishReason,
    Output,
    SamplingParams,
    TokenEvent,
    TokenLogprobs,
    Usage,
)
from stoker.text.detokenize import Detokenizer
from stoker.text.stop import StopMatcher

if TYPE_CHECKING:
    from stoker.text.tokenizer import Tokenizer


class OutputProcessor:
    """The growing text of one choice. `finished` once a piece had a finish reason."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        choice: int,
    ) -> None:
        self._params = params
        self._choice = choice
        self._detokenizer = Detokenizer(tokenizer, prompt_token_ids, params.skip_special_tokens)
        self._stops = StopMatcher(params.stop, params.include_stop_str_in_output)
        self._num_prompt_tokens = len(prompt_token_ids)
        self._num_tokens = 0
        self._num_cached_tokens = 0
        self._prompt_logprobs: list[TokenLogprobs] = []
        self._has_begun = False
        self.finished = False

    def push(self, event: TokenEvent) -> Output | None:
        """The piece that `event` adds; None where it adds nothing or the choice is over."""
        if self.finished:
            return None
        self._num_cached_tokens = max(self._num_cached_tokens, event.num_cached_tokens)
        self._prompt_logprobs += event.prompt_logprobs
        text, num_taken, matched = self._read(event)
        reason = FinishReason.STOP if matched is not None else event.finish_reason
        if reason is None and not num_taken:
            return None
        stop_reason: int | str | None = matched
        if matched is None and event.stop_token_id in self._params.stop_token_ids:
            stop_reason = event.stop_token_id
        timing = event.timing
        if matched is not None and event.finish_reason is None:
            timing = replace(timing, finished=time.time())
        self.finished = reason is not None
        return Output(
            choice=self._choice,
            text=text,
            token_ids=event.token_ids[:num_taken],
            logprobs=None if event.logprobs is None else event.logprobs[:num_taken],
            prompt_logprobs=self._take_prompt_logprobs(),
            embedding=_floats(event.embedding),
            finish_reason=reason,
            stop_reason=stop_reason,
            usage=Usage(self._num_prompt_tokens, self._num_tokens, self._num_cached_tokens),
            timing=timing,
        )

    def _take_prompt_logprobs(self) -> tuple[TokenLogprobs, ...] | None:
        """All of them, for the first piece; the engine sends them chunk by chunk."""
        if self._has_begun or self._params.prompt_logprobs is None:
            return None
        self._has_begun = True
        return tuple(self._prompt_logprobs)

    def _read(self, event: TokenEvent) -> tuple[str, int, str | None]:
        """Take tokens until a stop string shows: (new text, tokens taken, the stop string)."""
        text = ""
        for index, token_id in enumerate(event.token_ids):
            self._num_tokens += 1
            is_last = index + 1 == len(event.token_ids)
            if is_last and event.stop_token_id is not None and not self._shows_stop_token:
                break
            piece, matched = self._match(self._detokenizer.push([token_id]))
            text += piece
            if matched is not None:
                return text, index + 1, matched
        if event.finish_reason is None:
            return text, len(event.token_ids), None
        piece, matched = self._match(self._detokenizer.flush())
        text += piece
        return text if matched else text + self._stops.flush(), len(event.token_ids), matched

    @property
    def _shows_stop_token(self) -> bool:
        return self._params.include_stop_str_in_output

    def _match(self, text: str) -> tuple[str, str | None]:
        if self._num_tokens <= self._params.min_tokens or not self._params.stop:
            return text, None
        match = self._stops.push(text)
        return match.text, match.matched


def merge(first: Output, second: Output) -> Output:
    """Two pieces of one choice, in order, as one. Folding all of them gives the whole choice."""
    return Output(
        choice=first.choice,
        text=first.text + second.text,
        token_ids=first.token_ids + second.token_ids,
        logprobs=_merge_logprobs(first.logprobs, second.logprobs),
        prompt_logprobs=first.prompt_logprobs,
        embedding=second.embedding,
        finish_reason=second.finish_reason,
        stop_reason=second.stop_reason,
        usage=second.usage,
        timing=second.timing,
    )


def _floats(data: bytes) -> tuple[float, ...] | None:
    return struct.unpack(f"<{len(data) // 4}f", data) if data else None


def _merge_logprobs(
    first: tuple[TokenLogprobs, ...] | None, second: tuple[TokenLogprobs, ...] | None
) -> tuple[TokenLogprobs, ...] | None:
    if first is None or second is None:
        return first if second is None else second
    return first + second
