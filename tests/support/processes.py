"""Helpers for tests with real processes: start, watch, kill, and look for what was left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import httpx
import psutil

from stoker.core.config import EngineConfig
from stoker.core.request import SamplingParams
from stoker.engine.client import EngineClient
from tests.support.engine import ROOT, ByteTokenizer, Scenario, scripted_command

PRODUCT_ENGINE = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); "
    "from stoker.engine.process import main; sys.exit(main())",
)
"""The product's engine process, from this checkout even where `stoker` is not installed."""


@contextlib.asynccontextmanager
async def scripted_client(
    scenario: Scenario, config: EngineConfig | None = None, health_timeout_s: float = 20.0
) -> AsyncIterator[EngineClient]:
    """A started client of a scripted engine; closed, and its process gone, at the end."""
    client = EngineClient(
        config or EngineConfig(),
        ByteTokenizer(),  # type: ignore[arg-type]
        health_timeout_s=health_timeout_s,
        command=scripted_command(scenario),
    )
    await client.start()
    pid = client.engine_pid
    try:
        yield client
    finally:
        await client.close()
    assert pid is not None and is_gone(pid), f"engine process {pid} outlived its client"


async def text_of(client: EngineClient, prompt: bytes, params: SamplingParams) -> str:
    """The whole text of the first choice."""
    return "".join([o.text async for o in client.generate(list(prompt), params) if not o.choice])


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], what: str, timeout_s: float = 10.0
) -> None:
    """Wait until `condition` holds; fails with `what` if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        outcome = condition()
        if outcome if isinstance(outcome, bool) else await outcome:
            return
        assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what}"
        await asyncio.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody reaped yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_gone(pid: int, timeout_s: float) -> bool:
    """Whether the process ends within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not is_gone(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def children(pid: int | None = None) -> list[psutil.Process]:
    """Running descendants of a process; of this one by default."""
    return [p for p in psutil.Process(pid).children(recursive=True) if not is_gone(p.pid)]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """A server process with an HTTP port on 127.0.0.1. Output goes to this process's stderr."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        # The server starts `python -m stoker…` itself: let that find this checkout too.
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=sys.__stderr__, env=environment)

    @property
    def engine_pid(self) -> int:
        """The engine process: the one descendant there is."""
        (engine,) = children(self.process.pid)
        return engine.pid

    def wait_ready(self, timeout_s: float = 60.0, path: str = "/ready") -> None:
        """Return once `path` answers 200."""
        deadline = time.monotonic() + timeout_s
        while not self._answers(path):
            assert self.process.poll() is None, f"exit code {self.process.returncode}"
            assert time.monotonic() < deadline, f"{path} is not 200 after {timeout_s:g} s"
            time.sleep(0.05)

    def _answers(self, path: str) -> bool:
        try:
            return httpx.get(self.url + path, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False


@contextlib.contextmanager
def running_server(arguments: Sequence[str]) -> Iterator[Server]:
    """`stoker serve ARGUMENTS --port …` as a process of its own; killed at the end if need be."""
    port = free_port()
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); "
        "from stoker.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    server = Server([sys.executable, "-c", code, "serve", *arguments, "--port", str(port)], port)
    try:
        yield server
    finally:
        server.process.terminate()
        try:
            server.process.wait(10)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
