"""Serve an app on a socket, and stop in order.

Stopping, on the first SIGTERM or Ctrl-C: `/ready` turns 503 and new requests get 503 with
Retry-After, over the listener that stays open; running ones get `drain_timeout_s`; what is left
then ends with an error (an event inside a stream, a status before one). A second signal stops at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from stoker.api.state import AppState
from stoker.core.config import ServeConfig
from stoker.core.errors import Draining, StartupError

logger = logging.getLogger(__name__)

FLUSH_S = 3.0
"""How long the last bytes of ended requests may take to leave."""

_BACKLOG = 2048


class HttpServer:
    """One app on one listening socket; `run` it once."""

    def __init__(self, app: FastAPI, config: ServeConfig) -> None:
        """Raises StartupError where the address cannot be used."""
        state = app.state.stoker
        assert isinstance(state, AppState)  # build_app sets it
        self._state = state
        self._drain_timeout_s = config.drain_timeout_s
        self._socket = _listen(config.host, config.port)
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                http=_Connection,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(FLUSH_S),
            )
        )
        self._draining: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def run(self, on_ready: Callable[[str], None]) -> None:
        """Serve until stopped. `on_ready(url)` is called once connections are taken."""
        self._uvicorn.on_started = lambda: on_ready(self.url)
        try:
            await self._uvicorn.serve(sockets=[self._socket])
        finally:
            self._socket.close()
            if self._draining is not None:
                self._draining.cancel()

    def stop(self) -> None:
        """The first call drains and then stops; the second stops at once. Call on the loop."""
        if self._draining is None:
            self._state.is_draining = True
            self._draining = asyncio.create_task(self._drain())
        else:
            self._state.in_flight.fail(None, _stopped())
            self._uvicorn.force_exit = True
            self._uvicorn.should_exit = True

    async def _drain(self) -> None:
        in_flight = self._state.in_flight
        if in_flight:
            logger.info(
                "stopping: %d running, at most %g s to finish; a second Ctrl-C stops at once",
                len(in_flight),
                self._drain_timeout_s,
            )
        if not await in_flight.wait_idle(self._drain_timeout_s):
            in_flight.fail(None, _stopped())
            await in_flight.wait_idle(FLUSH_S)
        self._uvicorn.should_exit = True


async def serve(app: FastAPI, config: ServeConfig, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; returns after the drain. Main thread only.

    Raises:
        StartupError: the address cannot be used.
    """
    server = HttpServer(app, config)
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, server.stop)
    try:
        await server.run(on_ready)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _Connection(HttpToolsProtocol):
    """uvicorn's, with the request that runs told when the client leaves.

    uvicorn tells the one that it parsed last; with pipelined requests that is another one, and the
    one that runs would compute its whole answer for nobody.
    """

    _answering: RequestResponseCycle | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()


class _Uvicorn(uvicorn.Server):
    """uvicorn, with signals left to us: its own handler would not drain."""

    on_started: Callable[[], None]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.on_started()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:  # the resolver would take it modulo 65536
        raise StartupError(
            f"port is {port}, but must be at least 0 and at most 65535", param="port"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror as error:
        raise StartupError(f"cannot listen on {host}: {error.strerror}", param="host") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = "; choose another --port" if error.errno == errno.EADDRINUSE else ""
        raise StartupError(
            f"cannot listen on {host}:{port}: {reason}{hint}", param="port"
        ) from error


def _stopped() -> Draining:
    return Draining("The server stopped before this request was done")
