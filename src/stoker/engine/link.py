"""One engine process, from start to end, and the socket to it. Never used for a second process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from stoker.core.config import EngineConfig
from stoker.engine.wire import FromEngine, Start, ToEngine, decode_from_engine, encode

PRODUCT_COMMAND = (sys.executable, "-m", "stoker.engine.process")

MAX_IPC_PATH = 100
"""A Unix socket's path has room for about 107 bytes."""
EXIT_GRACE_S = 2.0
LAST_WORDS_MS = 100


class EngineLink:
    """A running engine process; `close` it in any case."""

    def __init__(self, config: EngineConfig) -> None:
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.set_hwm(0)
        self._folder: Path | None = None
        self._start = Start(config=config, address=self._bind())
        self._process: asyncio.subprocess.Process | None = None

    async def spawn(self, command: Sequence[str]) -> None:
        """Start the process. Raises OSError where `command` cannot be run."""
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            env=_environment(),
            stdout=sys.__stderr__,  # nothing it prints may mix with what this process prints
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._start) + b"\n")

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def send(self, message: ToEngine) -> None:
        """Never blocks; a message to a process that has ended is lost, and `messages` tells."""
        sent = asyncio.ensure_future(self._socket.send(encode(message), zmq.NOBLOCK))
        sent.add_done_callback(_retrieve)

    async def messages(self) -> AsyncGenerator[FromEngine, None]:
        """All that the process says; ends when it has ended and its last words were read."""
        assert self._process is not None
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while not ended.done():
                message = asyncio.ensure_future(self._socket.recv())
                await asyncio.wait({message, ended}, return_when=asyncio.FIRST_COMPLETED)
                if message.done():
                    self._remove_folder()
                    yield decode_from_engine(message.result())
                else:
                    message.cancel()
            while await self._socket.poll(LAST_WORDS_MS):
                yield decode_from_engine(await self._socket.recv())
        finally:
            ended.cancel()

    async def close(self) -> int | None:
        """End the process if it still runs, by force after a grace; returns its exit code."""
        code = None
        try:
            if self._process is not None:
                code = await _end(self._process)
        finally:
            self._context.destroy(linger=0)
            self._remove_folder()
        return code

    def _bind(self) -> str:
        """Bind a Unix socket in a folder that only this user can enter, or a local TCP port."""
        if zmq.has("ipc"):
            self._folder = Path(tempfile.mkdtemp(prefix="stoker-"))
            path = self._folder / "engine"
            if len(str(path)) <= MAX_IPC_PATH:
                self._socket.bind(f"ipc://{path}")
                return f"ipc://{path}"
            self._remove_folder()
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        return f"tcp://127.0.0.1:{port}"

    def _remove_folder(self) -> None:
        """Once both ends are connected nobody needs the name, and whoever kills this process
        later leaves no file behind."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _environment() -> dict[str, str]:
    """The engine has compute threads of its own: the libraries it loads, which read this once, when
    they are loaded, would each start as many again."""
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | os.environ


async def _end(process: asyncio.subprocess.Process) -> int:
    """Closing stdin asks the process to end (`lifeline`); SIGKILL makes it."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        async with asyncio.timeout(EXIT_GRACE_S):
            return await process.wait()
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return await process.wait()


def _retrieve(sent: asyncio.Future[Any]) -> None:
    """Look at the outcome, so that asyncio does not report it as forgotten."""
    if not sent.cancelled():
        sent.exception()
