"""The engine process's main loop: drain the inbox, run a step, send what is new.

Torch-free: `process.py` brings the builder of the real engine, tests bring their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import zmq

from stoker.core.config import EngineConfig
from stoker.core.errors import ErrorInfo, StartupError, StokerError
from stoker.core.request import TokenEvent
from stoker.engine.core import EngineCore
from stoker.engine.lifeline import take_hold
from stoker.engine.wire import (
    Abort,
    Done,
    EngineInfo,
    Events,
    Failed,
    FromEngine,
    Ping,
    Pong,
    Progress,
    Ready,
    ResetPrefixCache,
    Stop,
    Submit,
    ToEngine,
    decode_to_engine,
    encode,
)

logger = logging.getLogger(__name__)

Report = Callable[[int, int], None]
"""Called while loading with (bytes done, bytes in total)."""
Build = Callable[[EngineConfig, Report], tuple[EngineCore, EngineInfo]]

EXIT_STOPPED, EXIT_BROKEN, EXIT_CANNOT_START = 0, 1, 2
LINGER_MS = 1000
STALL_MS = 10
QUIET_MS = 200
"""Idle time before the books are checked, so that the check is in nobody's way."""
PROGRESS_EVERY_S = 0.1


def run_engine(build: Build) -> int:
    """Be an engine process from the start message on stdin to the end; returns the exit code."""
    start = take_hold()
    context = zmq.Context()
    channel = Channel(context, start.address)
    try:
        return _build_and_run(build, start.config, channel)
    finally:
        context.destroy(linger=LINGER_MS)


def _build_and_run(build: Build, config: EngineConfig, channel: Channel) -> int:
    try:
        core, info = build(config, _throttled(channel))
        channel.send(Ready(info))
        EngineLoop(core, channel).run()
    except StartupError as error:
        channel.send(Failed(error.info))
        return EXIT_CANNOT_START
    except Exception as error:
        logger.exception("the engine ends")
        channel.send(Failed(_info(error)))
        return EXIT_BROKEN
    return EXIT_STOPPED


class Channel:
    """The process's socket. Sending never blocks: what can be in flight is bounded by the client,
    which takes only so many requests."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._socket = context.socket(zmq.PAIR)
        self._socket.set_hwm(0)
        self._socket.connect(address)

    def send(self, message: FromEngine) -> None:
        self._socket.send(encode(message))

    def receive(self, timeout_ms: int | None) -> ToEngine | None:
        """The next message, or None if none came in time; `timeout_ms` None waits for ever."""
        if not self._socket.poll(timeout_ms):
            return None
        return decode_to_engine(self._socket.recv())


class EngineLoop:
    """Runs one EngineCore until a Stop message."""

    def __init__(self, core: EngineCore, channel: Channel) -> None:
        self._core = core
        self._channel = channel
        self._unchecked = False
        """Something ran since the books were last checked."""

    def run(self) -> None:
        """Raises what breaks the engine: failing steps, or pages that do not add up."""
        while not self._drain_inbox():
            if self._core.has_work:
                self._unchecked = True
                self._send(self._core.step())
            elif self._unchecked:
                self._unchecked = False
                self._core.check_totals()

    def _drain_inbox(self) -> bool:
        """Handle all messages that are there, waiting for one while idle; True after a Stop."""
        timeout_ms = self._patience_ms()
        while (message := self._channel.receive(timeout_ms)) is not None:
            if self._handle(message):
                return True
            timeout_ms = self._patience_ms()
        return False

    def _patience_ms(self) -> int | None:
        """How long nothing may come before the loop does something else; None is for ever."""
        if self._core.has_work:
            return STALL_MS if self._core.stalled else 0
        return QUIET_MS if self._unchecked else None

    def _handle(self, message: ToEngine) -> bool:
        match message:
            case Submit(request):
                self._core.submit(request)
            case Abort(request_ids):
                self._send(self._core.abort(request_ids))
            case Ping(number):
                self._channel.send(Pong(number, self._core.stats))
            case ResetPrefixCache(number):
                self._core.reset_prefix_cache()
                self._channel.send(Done(number))
            case Stop():
                self._send(self._core.abort_all())
                return True
        return False

    def _send(self, events: list[TokenEvent]) -> None:
        self._channel.send(Events(events, self._core.stats))


def _throttled(channel: Channel) -> Report:
    """A few messages a second. Loaders call it from their threads, one call at a time, while the
    main thread waits for them: that is all the care that a ZeroMQ socket asks for."""
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_EVERY_S or done == total:
            last = now
            channel.send(Progress(done, total))

    return report


def _info(error: Exception) -> ErrorInfo:
    if isinstance(error, StokerError):
        return error.info
    # The rest of it is for the log: clients see this message.
    return StokerError(f"the engine broke ({type(error).__name__})").info
