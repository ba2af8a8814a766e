"""EngineClient: prompts in, pieces of text out; the engine itself runs in another process.

Asyncio, one event loop, no tensors. This is the only place that aborts a request whose consumer
went away, so no endpoint has to.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.core.config import EngineConfig
from stoker.core.errors import (
    EngineDead,
    InvalidRequest,
    Overloaded,
    ReportedError,
    RequestFailed,
)
from stoker.core.request import Output, Pooling, Request, SamplingParams, TokenEvent
from stoker.engine.admission import expand
from stoker.engine.link import PRODUCT_COMMAND
from stoker.engine.outputs import OutputProcessor
from stoker.engine.stream import OutputStream
from stoker.engine.supervisor import Supervisor
from stoker.engine.wire import (
    Abort,
    Done,
    EngineInfo,
    Events,
    FromEngine,
    Ping,
    Pong,
    Progress,
    Ready,
    ResetPrefixCache,
    Stats,
    Submit,
)

if TYPE_CHECKING:
    from stoker.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

PING_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice that the engine works on."""

    processor: OutputProcessor
    stream: OutputStream


class EngineClient:
    """One engine for any number of concurrent `generate` calls."""

    def __init__(
        self,
        config: EngineConfig,
        tokenizer: Tokenizer | None = None,
        *,
        health_timeout_s: float = 20.0,
        command: Sequence[str] = PRODUCT_COMMAND,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`on_progress(done, total)` is called in bytes while a model loads.

        The tokenizer may also be given later, as the attribute: an engine starts without one.
        """
        self.tokenizer = tokenizer
        self._health_timeout_s = health_timeout_s
        self._on_progress = on_progress
        self._supervisor = Supervisor(config, command, self._receive, self._lose)
        self._info: EngineInfo | None = None
        self._stats = Stats()
        self._choices: dict[str, _Choice] = {}
        self._calls: dict[int, asyncio.Future[None]] = {}
        self._numbers = itertools.count()
        self._last_sign = time.monotonic()
        self._pings: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the engine process and wait until it is ready. Raises StartupError."""
        await self._supervisor.start()
        self._pings = asyncio.create_task(self._ping(), name="engine-ping")

    @property
    def info(self) -> EngineInfo:
        """What the engine settled on. Raises EngineDead before `start` has returned."""
        if self._info is None:
            raise EngineDead("the engine has not started yet")
        return self._info

    @property
    def stats(self) -> Stats:
        """The engine's last word about itself; the counters begin at 0 again after a restart."""
        return self._stats

    @property
    def ready(self) -> bool:
        """Whether new requests are taken: an engine is up."""
        return self._supervisor.ready

    @property
    def engine_pid(self) -> int | None:
        return self._supervisor.pid

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
        """All `params.n` choices of one prompt, interleaved; each ends with a finish reason.

        With `pooling`, and `max_tokens` 0, the one piece is an embedding of the prompt.
        `request_id` is what logs call it; it need not be unique.
        Nothing is sent before the first piece is asked for. Closing the iterator, or cancelling the
        task that waits for it, aborts the request.

        Raises:
            StokerError: the request was refused (at the first piece) or failed (later);
                EngineDead where the engine process ended meanwhile.
        """
        requests = expand(
            prompt_token_ids, params, self.info, priority, cache_salt, pooling, request_id
        )
        self._check_room(params.n)
        stream = OutputStream(len(requests))
        try:
            self._submit(requests, stream)
            while outputs := await stream.take():
                for output in outputs:
                    yield output
        finally:
            self._abort(request.id for request in requests)

    async def reset_prefix_cache(self) -> None:
        """Forget all cached prefixes. Raises EngineDead where no engine is there to do it."""
        self._check_ready()
        number = next(self._numbers)
        done = self._calls[number] = asyncio.get_running_loop().create_future()
        self._supervisor.send(ResetPrefixCache(number))
        try:
            await done
        finally:
            del self._calls[number]

    def check_health(self) -> None:
        """Raise EngineDead unless the engine process lives and has said so lately."""
        self._check_ready()
        silent_s = time.monotonic() - self._last_sign
        if silent_s > self._health_timeout_s:
            raise EngineDead(
                f"no sign of life from the engine for {silent_s:.0f} s; {self._health_timeout_s:g} "
                "s are allowed"
            )

    async def close(self) -> None:
        """End the engine process; requests that still run fail."""
        if self._pings is not None:
            self._pings.cancel()
        await self._supervisor.close()
        self._fail_all(EngineDead("the engine was closed"))

    def _check_room(self, num_choices: int) -> None:
        self._check_ready()
        room = self.info.max_choices
        if num_choices > room:
            raise InvalidRequest(
                f"n is {num_choices}, but this server takes at most {room} choices at once",
                param="n",
            )
        if len(self._choices) + num_choices > room:
            raise Overloaded(
                f"{len(self._choices)} choices are in flight and at most {room} are allowed; "
                "try again in a moment"
            )

    def _check_ready(self) -> None:
        if self._supervisor.ready:
            return
        if self._info is None:
            raise EngineDead("the model is being loaded; try again in a moment", code="loading")
        raise EngineDead("the engine ended and is being started again; try again in a moment")

    def _submit(self, requests: list[Request], stream: OutputStream) -> None:
        assert self.tokenizer is not None, "whoever makes prompts has a tokenizer"
        for request in requests:
            processor = OutputProcessor(
                self.tokenizer, request.prompt_token_ids, request.params, request.choice
            )
            self._choices[request.id] = _Choice(processor, stream)
            self._supervisor.send(Submit(request))

    def _abort(self, request_ids: Iterable[str]) -> None:
        """Make the engine forget those of `request_ids` that it still works on."""
        running = [request_id for request_id in request_ids if self._forget(request_id)]
        if running:
            self._supervisor.send(Abort(running))

    def _forget(self, request_id: str) -> bool:
        return self._choices.pop(request_id, None) is not None

    def _receive(self, message: FromEngine) -> None:
        self._last_sign = time.monotonic()
        match message:
            case Events(events, stats):
                self._stats = stats
                for event in events:
                    self._take(event)
            case Pong(stats=stats):
                self._stats = stats
            case Done(number):
                call = self._calls.get(number)
                if call is not None and not call.done():
                    call.set_result(None)
            case Ready(info):
                self._info = info
            case Progress(done, total):
                if self._on_progress is not None:
                    self._on_progress(done, total)

    def _take(self, event: TokenEvent) -> None:
        """Hand one event to its consumer. An event of a request that was aborted is old news."""
        choice = self._choices.get(event.request_id)
        if choice is None:
            return
        if event.error is not None:
            self._forget(event.request_id)
            choice.stream.fail(ReportedError(event.error))
            return
        try:
            output = choice.processor.push(event)
        except Exception:
            logger.exception("request %s: its tokens could not be turned to text", event.request_id)
            self._abort([event.request_id])
            choice.stream.fail(RequestFailed("the answer could not be turned to text"))
            return
        if output is not None:
            choice.stream.put(output)
        if event.finish_reason is not None:
            self._forget(event.request_id)
        elif choice.processor.finished:  # by a stop string, which the engine does not know
            self._abort([event.request_id])

    def _lose(self, error: EngineDead) -> None:
        """The engine process ended: so does everything it worked on."""
        self._stats = Stats()
        self._fail_all(error)

    def _fail_all(self, error: Exception) -> None:
        choices = list(self._choices.values())
        self._abort(list(self._choices))
        for choice in choices:
            choice.stream.fail(error)
        for call in self._calls.values():
            if not call.done():
                call.set_exception(error)

    async def _ping(self) -> None:
        while True:
            self._supervisor.send(Ping(next(self._numbers)))
            await asyncio.sleep(PING_EVERY_S)
