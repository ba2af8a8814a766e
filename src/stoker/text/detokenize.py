"""Tokens to text while they come, one choice at a time.

A token adds bytes; what goes out are the characters that those bytes complete. The whole equals
`Tokenizer.decode`, whatever the cuts, and costs the same for every token: no text is decoded twice.
At most three bytes are ever held back, because no UTF-8 character is longer than four.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import Protocol

_REPLACEMENT = "\ufffd"
_LONGEST_CHARACTER = 4


class Decoding(Protocol):
    """What of a tokenizer turns tokens to text; see `text.tokenizer.Tokenizer`."""

    @property
    def strips_first_space(self) -> bool: ...

    def visible_bytes(self, token_id: int, skip_special_tokens: bool) -> bytes: ...


class Detokenizer:
    """The text that follows a prompt.

    The concatenation of all `push` results and of one `flush` is what decode(prompt + output) has
    beyond decode(prompt). Where the prompt ends inside a character, the output that completes it
    gets the whole character; prompt text is never repeated.
    """

    def __init__(
        self, tokenizer: Decoding, prompt_ids: Sequence[int], skip_special_tokens: bool
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip_space = tokenizer.strips_first_space and not any(map(self._bytes, prompt_ids))
        self._decoder.decode(self._tail(prompt_ids))
        # The prompt's unfinished bytes are a U+FFFD of the prompt unless the output completes them.
        self._ends_mid_character = bool(self._decoder.getstate()[0])

    def push(self, ids: Iterable[int]) -> str:
        """Take the next tokens; return the characters that are now complete."""
        data = b"".join(map(self._bytes, ids))
        if data and self._strip_space:
            data = data.removeprefix(b" ")
            self._strip_space = False
        return self._without_prompt(self._decoder.decode(data))

    def flush(self) -> str:
        """The end: bytes still held back become U+FFFD. Call once, after the last `push`."""
        return self._without_prompt(self._decoder.decode(b"", final=True))

    def _bytes(self, token_id: int) -> bytes:
        return self._tokenizer.visible_bytes(token_id, self._skip_special_tokens)

    def _tail(self, prompt_ids: Sequence[int]) -> bytes:
        """Enough bytes of the prompt's end to hold any character it may end in."""
        tail = b""
        for token_id in reversed(prompt_ids):
            if len(tail) >= _LONGEST_CHARACTER:
                break
            tail = self._bytes(token_id) + tail
        return tail

    def _without_prompt(self, text: str) -> str:
        if text and self._ends_mid_character:
            self._ends_mid_character = False
            return text.removeprefix(_REPLACEMENT)
        return text
