"""Keeps one engine process running: starts it, watches it, starts it again when it ends.

Knows messages only as far as life and death go; everything else goes to the callbacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Sequence

from stoker.core.config import EngineConfig
from stoker.core.errors import EngineDead, ErrorInfo, StartupError
from stoker.engine.link import EngineLink
from stoker.engine.wire import Failed, FromEngine, Ready, Stop, ToEngine

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
HEALTHY_AFTER_S = 60.0
STOP_GRACE_S = 3.0


class Supervisor:
    """One engine after another, each in its own process with its own socket."""

    def __init__(
        self,
        config: EngineConfig,
        command: Sequence[str],
        on_message: Callable[[FromEngine], None],
        on_down: Callable[[EngineDead], None],
    ) -> None:
        """`on_down` is called once for each engine that ended, before the next one starts."""
        self._config = config
        self._command = command
        self._on_message = on_message
        self._on_down = on_down
        self._link: EngineLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready_at: float | None = None
        self._closing = False

    @property
    def ready(self) -> bool:
        """Whether an engine is up that has loaded its model."""
        return self._ready_at is not None

    @property
    def pid(self) -> int | None:
        """Process id of the engine of now, for operators and tests."""
        return None if self._link is None else self._link.pid

    async def start(self) -> None:
        """Returns when the first engine is ready.

        Raises:
            StartupError: it ended before it was ready; it is not tried again.
        """
        first_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(first_ready), name="engine-supervisor")
        try:
            await asyncio.shield(first_ready)
        except BaseException:
            await self.close()
            raise

    def send(self, message: ToEngine) -> None:
        """To the engine of now; lost where none runs."""
        if self._link is not None:
            self._link.send(message)

    async def close(self) -> None:
        """Ask the engine to stop, then make it; no process is left afterwards."""
        self._closing = True
        task, self._task = self._task, None
        if task is None:
            return
        if self._link is not None and self.ready:
            self._link.send(Stop())
            await asyncio.wait({task}, timeout=STOP_GRACE_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self, first_ready: asyncio.Future[None]) -> None:
        backoff_s = FIRST_BACKOFF_S
        while not self._closing:
            healthy_s, error = await self._live(first_ready)
            if not first_ready.done():
                first_ready.set_exception(StartupError(error.message, param=error.param))
                return
            self._on_down(EngineDead(error.message))
            if self._closing:
                return
            if healthy_s >= HEALTHY_AFTER_S:
                backoff_s = FIRST_BACKOFF_S
            logger.error("%s; starting it again in %.1f s", error.message, backoff_s)
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)

    async def _live(self, first_ready: asyncio.Future[None]) -> tuple[float, ErrorInfo]:
        """One engine's life: seconds that it was ready, and why it ended."""
        error: ErrorInfo | None = None
        code: int | None = None
        try:
            self._link = EngineLink(self._config)
            await self._link.spawn(self._command)
            async with contextlib.aclosing(self._link.messages()) as messages:
                async for message in messages:
                    if isinstance(message, Failed):
                        error = message.error
                    elif isinstance(message, Ready):
                        self._ready_at = time.monotonic()
                        if first_ready.done():
                            logger.info("the engine is ready again")
                    self._on_message(message)
                    if self.ready and not first_ready.done():
                        first_ready.set_result(None)
        except OSError as failure:
            error = EngineDead(f"the engine process cannot be started: {failure}").info
        except Exception as failure:
            logger.exception("lost the engine process")
            error = EngineDead(f"lost the engine process: {failure}").info
        finally:
            ready_at, self._ready_at = self._ready_at, None
            link, self._link = self._link, None
            code = None if link is None else await link.close()
        healthy_s = 0.0 if ready_at is None else time.monotonic() - ready_at
        return healthy_s, error or EngineDead(f"the engine process ended: {_describe(code)}").info


def _describe(code: int | None) -> str:
    if code is not None and code < 0:
        names = {known.value: known.name for known in signal.Signals}
        return f"killed by {names.get(-code, f'signal {-code}')}"
    return f"exit code {code}"
