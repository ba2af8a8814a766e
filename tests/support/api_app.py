"""An app over a FakeEngine, called in process over ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI

from stoker.api.app import build_app
from stoker.api.state import AppState
from stoker.core.config import ServeConfig
from stoker.core.model import GenerationDefaults
from tests.support.fake_engine import FakeEngine, FakeTemplate, FakeTokenizer

T = TypeVar("T")

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HI = [{"role": "user", "content": "hi"}]


@dataclass
class Api:
    """`engine` and `template` stay at hand, to script them and to see what reached them."""

    engine: FakeEngine = field(default_factory=lambda: FakeEngine(FakeTokenizer()))
    template: FakeTemplate | None = field(default_factory=FakeTemplate)
    config: ServeConfig = ServeConfig()
    defaults: GenerationDefaults = GenerationDefaults()

    def __post_init__(self) -> None:
        self.app: FastAPI = build_app(
            self.engine, self.engine.tokenizer, self.template, self.config, "fake", self.defaults
        )

    @property
    def state(self) -> AppState:
        state: AppState = self.app.state.stoker
        return state

    def session(self, scenario: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
        """Run `scenario(client)` on a loop of its own."""

        async def main() -> T:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await scenario(client)

        return asyncio.run(main())

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.session(lambda client: client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        headers = {"content-type": "application/json"} | options.pop("headers", {})
        # httpx's own encoding refuses half surrogates and NaN, which the server must survive.
        return self.request("POST", path, content=json.dumps(body), headers=headers, **options)

    def chat(self, **fields: Any) -> httpx.Response:
        return self.post(CHAT, {"messages": HI} | fields)

    def complete(self, **fields: Any) -> httpx.Response:
        return self.post(COMPLETIONS, {"prompt": "hi"} | fields)


def events(response: httpx.Response) -> list[Any]:
    """The payloads of an event stream: JSON values, and the string "[DONE]"."""
    assert response.headers["content-type"].startswith("text/event-stream"), response.text
    lines = [block.removeprefix("data: ") for block in response.text.split("\n\n") if block]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def chunks(response: httpx.Response) -> list[Any]:
    """The chunks of a stream that ended well."""
    payloads = events(response)
    assert payloads[-1] == "[DONE]", payloads[-1]
    return payloads[:-1]


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error of a refusal, checked for its shape."""
    body = response.json()
    assert set(body) == {"error"}, body
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}, error
    assert error["message"] and error["type"]
    return error


class RawCall:
    """One request over bare ASGI, whose client can go away at any moment."""

    def __init__(
        self, app: FastAPI, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        self.sent: list[dict[str, Any]] = []
        self.first_body = asyncio.Event()
        self._gone = asyncio.Event()
        self._body = json.dumps(body).encode()
        self._is_read = False
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                (b"content-type", b"application/json"),
                (b"host", b"test"),
                *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
            ],
            "client": ("test", 1),
            "server": ("test", 80),
            "scheme": "http",
            "root_path": "",
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))  # type: ignore[arg-type]

    def disconnect(self) -> None:
        self._gone.set()

    async def _receive(self) -> dict[str, Any]:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.first_body.set()
