"""Outputs of one HTTP request on their way from the engine to the assembler.

One request may hold several prompts, each its own `generate()` call. A task per prompt pumps its
outputs into one queue, which a handler can wait on with a deadline, for three uses: an error before
the first byte gets a real status code, a long wait gets keep-alive lines, and a drain can end the
stream from outside with an error. Closing cancels the pumps, and that aborts in the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence

from stoker.core.request import Output


class RequestOutputs:
    """(prompt index, Output) pairs in the order in which they arrive. Bound to the running loop."""

    def __init__(self, sources: Sequence[AsyncIterator[Output]]) -> None:
        self._ready: deque[tuple[int, Output] | Exception] = deque()
        self._changed = asyncio.Event()
        self._running = len(sources)
        self._tasks = [
            asyncio.create_task(self._pump(index, source)) for index, source in enumerate(sources)
        ]

    async def wait(self, timeout_s: float | None) -> bool:
        """True as soon as there is news, a pair or the end; False after `timeout_s` seconds.

        Gives way to other tasks in any case: a reader that was slow may have a long backlog.
        """
        if self._ready or not self._running:
            await asyncio.sleep(0)
        else:
            self._changed.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    @property
    def is_over(self) -> bool:
        """Whether all sources ended and everything was taken."""
        return not self._ready and not self._running

    def take(self) -> tuple[int, Output] | None:
        """The next pair that lies ready, None if none does. Raises what a source raised."""
        if not self._ready:
            return None
        item = self._ready.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def raise_early(self) -> None:
        """Raise the error that is first in line, if one is; take nothing."""
        if self._ready and isinstance(self._ready[0], Exception):
            raise self._ready[0]

    def fail(self, error: Exception) -> None:
        """End the stream with `error` after what is already in line."""
        self._put(error)

    async def close(self) -> None:
        """Stop all sources; returns when their aborts are on the way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, index: int, source: AsyncIterator[Output]) -> None:
        try:
            async for output in source:
                self._put((index, output))
        except Exception as error:  # the consumer decides what a client may know of it
            self._put(error)
        finally:
            self._running -= 1
            self._changed.set()

    def _put(self, item: tuple[int, Output] | Exception) -> None:
        self._ready.append(item)
        self._changed.set()


class InFlight:
    """The streams that are open, so that a drain can wait for them and end them."""

    def __init__(self) -> None:
        self._streams: dict[RequestOutputs, Collection[str]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, stream: RequestOutputs, ids: Collection[str]) -> None:
        """`ids` are what its client knows it by; another stream may have the same."""
        self._streams[stream] = ids
        self._idle.clear()

    def remove(self, stream: RequestOutputs) -> None:
        self._streams.pop(stream, None)
        if not self._streams:
            self._idle.set()

    def __len__(self) -> int:
        return len(self._streams)

    async def wait_idle(self, timeout_s: float) -> bool:
        """True once nothing is in flight, False after `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def fail(self, ids: Collection[str] | None, error: Exception) -> int:
        """End the streams that have one of `ids`, or all; returns how many there were."""
        found = [
            stream
            for stream, own in self._streams.items()
            if ids is None or not set(ids).isdisjoint(own)
        ]
        for stream in found:
            stream.fail(error)
        return len(found)
