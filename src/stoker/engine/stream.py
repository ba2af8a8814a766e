"""Pieces on their way from the engine to one consumer, who may be slow.

At most one piece a choice waits: what comes before it is taken is merged into it, so the queue of a
consumer that sleeps grows by tokens of its own answer and by nothing else.
"""

from __future__ import annotations

import asyncio

from stoker.core.request import Output
from stoker.engine.outputs import merge


class OutputStream:
    """The pieces of all choices of one request."""

    def __init__(self, num_choices: int) -> None:
        self._pending: dict[int, Output] = {}
        self._num_running = num_choices
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    def put(self, output: Output) -> None:
        waiting = self._pending.get(output.choice)
        self._pending[output.choice] = output if waiting is None else merge(waiting, output)
        if output.finish_reason is not None:
            self._num_running -= 1
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """End the stream with `error`, after the pieces that wait; the first error counts."""
        self._error = self._error or error
        self._changed.set()

    async def take(self) -> list[Output]:
        """All pieces that wait, at least one; none once every choice has ended."""
        while not self._pending:
            if self._error is not None:
                raise self._error
            if not self._num_running:
                return []
            self._changed.clear()
            await self._changed.wait()
        pending, self._pending = self._pending, {}
        return list(pending.values())
