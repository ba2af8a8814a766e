"""A scripted engine for tests of the HTTP face: real detokenizer and stop matcher, no model.

`FakeEngine` plays the tokens of its script as the engine process would send them, so that all that
`api` sees (pieces, usage, stop reasons, refusals, aborts) is as in production.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.core.errors import EngineDead, InvalidRequest, StokerError
from stoker.core.request import (
    FinishReason,
    Output,
    Pooling,
    SamplingParams,
    Timing,
    TokenEvent,
    TokenLogprobs,
)
from stoker.engine.outputs import OutputProcessor
from stoker.engine.wire import EngineInfo, Stats

EOS = 256
BOS = 257
FIRST_PIECE = 258


class FakeTokenizer:
    """Ids 0 to 255 are bytes, then EOS and BOS, then the given pieces. Encodes to bytes only."""

    strips_first_space = False

    def __init__(self, pieces: Sequence[str] = ()) -> None:
        self._pieces = [piece.encode() for piece in pieces]
        self.bos_id = BOS
        self.eos_id = EOS
        self.special_ids = frozenset({EOS, BOS})
        self.chat_template = None
        self.vocab_size = FIRST_PIECE + len(pieces)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [BOS] * add_special_tokens + list(text.encode())

    def decode(self, ids: Iterable[int], skip_special_tokens: bool) -> str:
        return b"".join(self.visible_bytes(i, skip_special_tokens) for i in ids).decode(
            "utf-8", "replace"
        )

    def visible_bytes(self, token_id: int, skip_special_tokens: bool) -> bytes:
        if skip_special_tokens and token_id in self.special_ids:
            return b""
        return self.token_bytes(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        if token_id < 256:
            return bytes([token_id])
        if token_id in self.special_ids:
            return self.id_to_piece(token_id).encode()
        return self._pieces[token_id - FIRST_PIECE]

    def id_to_piece(self, token_id: int) -> str:
        special = {EOS: "<eos>", BOS: "<bos>"}
        return special.get(token_id) or self.token_bytes(token_id).decode("latin-1")

    def ids(self, *pieces: str) -> list[int]:
        """The ids of registered pieces."""
        return [FIRST_PIECE + self._pieces.index(piece.encode()) for piece in pieces]


class FakeTemplate:
    """`role: content` lines; refuses the role order that a test asks it to refuse."""

    def __init__(self) -> None:
        self.rendered: list[tuple[list[Mapping[str, Any]], bool, dict[str, Any]]] = []

    def render_to_ids(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        self.rendered.append((list(messages), add_generation_prompt, dict(variables or {})))
        if "refuse" in messages[-1]["content"]:
            raise InvalidRequest("the template refuses this", param="messages")
        lines = [f"{message['role']}: {message['content']}" for message in messages]
        return list("\n".join([*lines, "assistant:"] if add_generation_prompt else lines).encode())


@dataclass
class Call:
    """One `generate` call, as the engine saw it."""

    prompt_token_ids: list[int]
    params: SamplingParams
    priority: int
    cache_salt: str | None
    pooling: Pooling | None = None
    request_id: str | None = None
    is_aborted: bool = False


Script = Callable[[Call, int], Sequence[Sequence[int]]]
"""(call, choice) → steps; a step is the token ids that come in one event."""


@dataclass
class FakeEngine:
    """Set the fields to script it; `calls` tells what it was asked."""

    tokenizer: FakeTokenizer
    script: Script | Sequence[Sequence[int]] = ((72,), (105,))  # "H", "i"
    step_s: float = 0.0
    first_step_s: float = 0.0
    refusal: StokerError | None = None
    """Raised instead of the first output."""
    failure: Exception | None = None
    """Raised after the last step of the script, instead of the end."""
    dead: bool = False
    cached_tokens: int = 0
    max_model_len: int = 512
    stats: Stats = Stats()
    num_resets: int = 0
    calls: list[Call] = field(default_factory=list)

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            vocab_size=self.tokenizer.vocab_size,
            hidden_size=3,
            max_model_len=self.max_model_len,
            num_pages=64,
            page_size=16,
            max_request_tokens=1024,
            max_choices=1024,
            max_num_seqs=8,
            max_num_batched_tokens=64,
            weight_bytes=0,
            kernels="fake",
        )

    async def reset_prefix_cache(self) -> None:
        self.check_health()
        self.num_resets += 1

    def check_health(self) -> None:
        if self.dead:
            raise EngineDead("the engine process ended")

    async def generate(
        self,
        prompt_token_ids: list[int],
        params: SamplingParams,
        *,
        priority: int = 0,
        cache_salt: str | None = None,
        pooling: Pooling | None = None,
        request_id: str | None = None,
    ) -> AsyncGenerator[Output, None]:
        call = Call(prompt_token_ids, params, priority, cache_salt, pooling, request_id)
        self.calls.append(call)
        if self.refusal is not None:
            raise self.refusal
        try:
            await asyncio.sleep(self.first_step_s)
            async for output in self._play(call):
                yield output
        except (asyncio.CancelledError, GeneratorExit):
            call.is_aborted = True
            raise
        if self.failure is not None:
            raise self.failure

    async def _play(self, call: Call) -> AsyncGenerator[Output, None]:
        arrival = time.time()
        choices = {}
        for choice in range(call.params.n):
            processor = OutputProcessor(
                self.tokenizer,
                call.prompt_token_ids,
                call.params,
                choice,  # type: ignore[arg-type]
            )
            choices[choice] = (processor, iter(self._events(call, choice, arrival)))
        while choices:
            for choice, (processor, events) in list(choices.items()):
                event = next(events, None)
                output = processor.push(event) if event else None
                if output is not None:
                    yield output
                if event is None or processor.finished:
                    del choices[choice]
            await asyncio.sleep(self.step_s)

    def _events(self, call: Call, choice: int, arrival: float) -> Iterable[TokenEvent]:
        params = call.params
        steps = self.script(call, choice) if callable(self.script) else self.script
        room = self.max_model_len - len(call.prompt_token_ids)
        left = room if params.max_tokens is None else min(params.max_tokens, room)
        yield from self._scored_prompt(call)
        if left == 0:
            vector = (3.0, 4.0, 12.0) if call.pooling else ()
            yield TokenEvent(
                request_id="",
                finish_reason=FinishReason.LENGTH,
                num_cached_tokens=self.cached_tokens,
                embedding=struct.pack(f"<{len(vector)}f", *vector),
            )
            return
        for step in [*steps, *([(EOS,)] if self.failure is None else [])]:
            taken: list[int] = []
            reason, stop_id = None, None
            for token in step:
                taken.append(token)
                left -= 1
                ends = token in params.stop_token_ids or (token == EOS and not params.ignore_eos)
                if ends:
                    reason, stop_id = FinishReason.STOP, token
                elif left == 0:
                    reason = FinishReason.LENGTH
                if reason is not None:
                    break
            yield TokenEvent(
                request_id="",
                token_ids=tuple(taken),
                logprobs=self._logprobs(params, taken),
                finish_reason=reason,
                stop_token_id=stop_id,
                num_cached_tokens=self.cached_tokens,
                timing=Timing(arrival, arrival, arrival, time.time() if reason else 0.0),
            )
            if reason is not None:
                return
        if self.failure is None:  # EOS was ignored: the script is over all the same
            yield TokenEvent(request_id="", finish_reason=FinishReason.LENGTH)

    def _scored_prompt(self, call: Call) -> Iterable[TokenEvent]:
        """Chunks of two, as an engine sends them before the first token."""
        k, ids = call.params.prompt_logprobs, call.prompt_token_ids
        if k is None:
            return
        entries = [
            TokenLogprobs(
                token,
                -0.5 * (before % 7),
                tuple((token + i) % self.tokenizer.vocab_size for i in range(k)),
                tuple(-0.5 * i for i in range(k)),
                rank=before + 1,
            )
            for before, token in itertools.pairwise(ids)
        ]
        for first in range(0, len(entries), 2):
            chunk = tuple(entries[first : first + 2])
            yield TokenEvent(request_id="", prompt_logprobs=chunk)

    def _logprobs(
        self, params: SamplingParams, tokens: Sequence[int]
    ) -> tuple[TokenLogprobs, ...] | None:
        if params.logprobs is None:
            return None
        k = params.logprobs
        return tuple(
            TokenLogprobs(
                token,
                -0.5 * (token % 7),
                tuple((token + i) % self.tokenizer.vocab_size for i in range(k)),
                tuple(-float("inf") if i == 19 else -0.5 * i for i in range(k)),
            )
            for token in tokens
        )
