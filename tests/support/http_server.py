"""A real HttpServer on 127.0.0.1 in a thread, for clients that want a socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.api.server import HttpServer
from stoker.core.config import ServeConfig
from tests.support.api_app import Api


class ServerThread:
    """`stop()` is what a signal does; `join` waits for the end of the server."""

    def __init__(self, api: Api, config: ServeConfig) -> None:
        self._api = api
        self._config = config
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._started.wait(20)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = HttpServer(self._api.app, self._config)
        self.url = self._server.url
        await self._server.run(lambda url: self._started.set())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._server.stop)

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


@contextmanager
def serving(api: Api, drain_timeout_s: float = 5.0) -> Iterator[ServerThread]:
    config = ServeConfig(port=0, drain_timeout_s=drain_timeout_s)
    thread = ServerThread(api, config)
    try:
        yield thread
    finally:
        if not thread.join(0):
            thread.stop()
            thread.stop()
            assert thread.join(10)
