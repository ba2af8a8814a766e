"""What the HTTP face needs of the rooms below, so that tests can stand in for each.

`engine.client.EngineClient`, `text.tokenizer.Tokenizer` and `text.chat_template.ChatTemplate` are
the real ones. Nothing here may know of processes, sockets or tensors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from stoker.core.request import Output, Pooling, SamplingParams
from stoker.engine.wire import EngineInfo, Stats


class Engine(Protocol):
    """One running engine, seen from the API process."""

    @property
    def info(self) -> EngineInfo: ...

    @property
    def stats(self) -> Stats: ...

    def generate(
        self,
        prompt_token_ids: list[int],
        params: SamplingParams,
        *,
        priority: int = 0,
        cache_salt: str | None = None,
        pooling: Pooling | None = None,
        request_id: str | None = None,
    ) -> AsyncIterator[Output]:
        """All `params.n` choices of one prompt, interleaved; each ends with a finish reason.

        With `pooling`, and `max_tokens` 0, one output with an embedding. `request_id` is what logs
        call it; it need not be unique.
        Cancelling the task that waits for the next output aborts the request.

        Raises:
            StokerError: the request was refused (at the first output) or failed (later).
        """
        ...

    async def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes. Raises EngineDead where no engine is there to do it."""
        ...

    def check_health(self) -> None:
        """Raise EngineDead unless the engine process lives and makes progress."""
        ...


class Tokenizer(Protocol):
    @property
    def vocab_size(self) -> int: ...

    @property
    def bos_id(self) -> int | None: ...

    @property
    def strips_first_space(self) -> bool: ...

    def encode(self, text: str, add_special_tokens: bool) -> list[int]: ...

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str: ...

    def token_bytes(self, token_id: int) -> bytes: ...

    def visible_bytes(self, token_id: int, skip_special_tokens: bool) -> bytes: ...

    def id_to_piece(self, token_id: int) -> str: ...


class Template(Protocol):
    def render_to_ids(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """The prompt of a conversation; content is text or text parts.

        Raises:
            InvalidRequest: names messages, or chat_template_kwargs for `variables`.
        """
        ...
