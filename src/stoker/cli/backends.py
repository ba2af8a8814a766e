"""Two ways to get a chat answer as a stream of pieces: a server over HTTP, or an own engine."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import httpx

from stoker.core.config import EngineConfig
from stoker.core.errors import ErrorInfo, ReportedError, StokerError
from stoker.core.request import SamplingParams, Usage

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the answer; `usage` counts the answer so far (a server sends it at the end)."""

    text: str
    usage: Usage | None = None


class Backend(Protocol):
    model: str

    def reply(self, messages: list[Message]) -> AsyncIterator[Piece]: ...

    async def close(self) -> None: ...


class ServerBackend:
    """Any OpenAI-compatible server."""

    def __init__(
        self, client: httpx.AsyncClient, model: str, temperature: float | None, max_tokens: int
    ) -> None:
        self.model = model
        self._client = client
        self._body = {
            "model": model,
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if temperature is not None:
            self._body["temperature"] = temperature

    @classmethod
    async def connect(
        cls, url: str, api_key: str | None, temperature: float | None, max_tokens: int
    ) -> ServerBackend:
        """Ask the server for its first model. Raises StokerError where none answers at `url`,
        which may end in /v1 as the official client wants it.
        """
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        base_url = url.rstrip("/").removesuffix("/v1")
        client = httpx.AsyncClient(base_url=base_url, headers=headers, timeout=None)
        try:
            response = await client.get("/v1/models", timeout=10)
        except httpx.HTTPError as error:
            raise StokerError(f"no server answers at {url}: {error}") from error
        if response.status_code != 200:
            raise _error(response.status_code, response.content)
        try:
            model = response.json()["data"][0]["id"]
        except (ValueError, LookupError, TypeError) as error:
            raise StokerError(f"{url} names no model at /v1/models") from error
        return cls(client, model, temperature, max_tokens)

    async def reply(self, messages: list[Message]) -> AsyncIterator[Piece]:
        """Raises StokerError where the server refuses, fails, or goes away."""
        body = self._body | {"messages": messages}
        try:
            async with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != 200:
                    raise _error(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        yield _piece(json.loads(line.removeprefix("data: ")))
        except httpx.HTTPError as error:
            raise StokerError(f"lost the server: {error or type(error).__name__}") from error

    async def close(self) -> None:
        await self._client.aclose()


class EngineBackend:
    """An engine process of our own, started for this chat."""

    def __init__(self, config: EngineConfig, temperature: float | None, max_tokens: int) -> None:
        from stoker.engine.client import EngineClient
        from stoker.text.chat_template import ChatTemplate
        from stoker.text.tokenizer import load_tokenizer
        from stoker.weights.checkpoint import open_checkpoint

        checkpoint = open_checkpoint(config.model, config.revision)
        self.model = checkpoint.name
        self._tokenizer = load_tokenizer(checkpoint.tokenizer)
        if self._tokenizer.chat_template is None:
            raise StokerError(f"{checkpoint.name} has no chat template; use `stoker generate`")
        self._template = ChatTemplate(self._tokenizer.chat_template, self._tokenizer)
        defaults = checkpoint.generation
        self._params = SamplingParams(
            temperature=defaults.temperature if temperature is None else temperature,
            top_k=defaults.top_k,
            top_p=defaults.top_p,
            min_p=defaults.min_p,
            repetition_penalty=defaults.repetition_penalty,
            max_tokens=max_tokens,
        )
        self._client = EngineClient(config, self._tokenizer)

    async def start(self) -> None:
        await self._client.start()

    async def reply(self, messages: list[Message]) -> AsyncIterator[Piece]:
        prompt = self._template.render_to_ids(messages)
        params = replace(self._params, seed=secrets.randbits(63))
        async for output in self._client.generate(prompt, params):
            yield Piece(output.text, output.usage)

    async def close(self) -> None:
        await self._client.close()


def _piece(chunk: dict[str, Any]) -> Piece:
    if "error" in chunk:
        raise StokerError(chunk["error"]["message"])
    text = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
    usage = chunk.get("usage")
    if not usage:
        return Piece(text)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return Piece(text, Usage(usage["prompt_tokens"], usage["completion_tokens"], cached))


def _error(status: int, body: bytes) -> StokerError:
    """The server's own words where it sent an OpenAI error body."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body.decode(errors="replace")[:200]
    return ReportedError(ErrorInfo(f"the server said {status}: {message}", "server_error", status))
