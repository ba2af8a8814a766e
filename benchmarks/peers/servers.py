"""Servers under test: started on a free port of 127.0.0.1, loaded once, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.agent_load import Load, Result, run_load
from benchmarks.peers.engines import ROOT, RunFailed

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
CONTEXT = 4096
"""Tokens that one session may have on either server."""


@dataclass(frozen=True, slots=True)
class Server:
    """How a server on one file is started; `--port` is added."""

    name: str
    kind: str
    command: tuple[str, ...]
    ready: str
    """Path that answers 200 once the model is loaded."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.kind}"


def stoker_server(kind: str, file: Path, threads: int) -> Server:
    command = (sys.executable, "-m", "stoker.cli.main", "serve", str(file))
    options = ("--threads", str(threads), "--max-model-len", str(CONTEXT), "--packed-cache", "off")
    return Server("ours", kind, command + options, "/ready")


def llama_server(kind: str, file: Path, threads: int, sessions: int, programs: Path) -> Server:
    """One slot a session, so that each keeps its prefix; everything else as it comes."""
    command = (str(programs / "llama-server"), "-m", str(file), "--host", "127.0.0.1", "--offline")
    options = ("-t", str(threads), "-np", str(sessions), "-c", str(CONTEXT * sessions))
    return Server("llama-server", kind, command + options, "/health")


def run_server(server: Server, load: Load) -> Result:
    """A fresh server, the whole load, and the server's end.

    Raises:
        RunFailed: the server did not start, or a turn failed.
    """
    with _running(server) as url:
        result = asyncio.run(run_load(url, load))
    if result.errors or not result.turns:
        why = result.errors[0] if result.errors else "no turn ended"
        raise RunFailed(f"{server.label}: {why}")
    return result


@contextlib.contextmanager
def _running(server: Server) -> Iterator[str]:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*server.command, "--port", str(port)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        try:
            _wait_ready(process, url + server.ready, server.label)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(process: subprocess.Popen[bytes], url: str, label: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    with httpx.Client(trust_env=False, timeout=5) as client:
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if client.get(url).status_code == 200:
                    return
            time.sleep(0.1)
    raise RunFailed(f"{label} was not ready; exit code {process.poll()}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
