"""Server-sent events: framing, keep-alive, and the end of work when the client goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

KEEP_ALIVE_S = 10.0
"""A comment line goes out after this many silent seconds, so that no proxy gives up."""

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def frame(payload: Any) -> bytes:
    """One event."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; cancel it when the client disconnects. The request body must be read already.

    Starlette watches for a disconnect only under its own StreamingResponse, so a plain handler
    would compute an answer that nobody reads.

    Raises:
        ClientDisconnect: the client went first.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_until_disconnect(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watcher.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStreamResponse(Response):
    """Sends frames as they come; on disconnect the generator is cancelled at once.

    `on_end` is awaited however the response ends. A `finally` in the generator would not do: one
    that was never started does not run it, and the client may go before the first byte.
    """

    def __init__(
        self, frames: AsyncGenerator[bytes, None], on_end: Callable[[], Awaitable[None]]
    ) -> None:
        # no-transform and X-Accel-Buffering keep proxies from collecting the stream.
        headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
        super().__init__(None, 200, headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self._frames = frames
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # Without a client there is nobody to tell: ending quietly is the whole handling.
            with contextlib.suppress(ClientDisconnect, OSError):
                await run_while_connected(receive, self._send_all(send))
        finally:
            await self._on_end()

    async def _send_all(self, send: Send) -> None:
        # A cancellation may strike while `send` waits, outside the generator.
        async with contextlib.aclosing(self._frames) as frames:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for body in frames:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
