"""The chat's view of a server: pieces, usage, and errors in the server's own words."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from stoker.cli.backends import Piece, ServerBackend
from stoker.core.errors import StokerError
from stoker.core.request import Usage
from tests.support.api_app import Api
from tests.support.http_server import serving

USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def sse(*events: dict) -> str:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([": keep-alive\n\n", *lines, "data: [DONE]\n\n"])


def delta(text: str) -> dict:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


def replies(status: int, body: str) -> list[Piece]:
    async def collect() -> list[Piece]:
        transport = httpx.MockTransport(lambda request: httpx.Response(status, text=body))
        client = httpx.AsyncClient(base_url="http://server", transport=transport)
        backend = ServerBackend(client, "m", 0.0, 8)
        pieces = [piece async for piece in backend.reply([{"role": "user", "content": "hi"}])]
        await backend.close()
        return pieces

    return asyncio.run(collect())


def test_pieces_join_to_the_answer_and_end_with_the_usage() -> None:
    pieces = replies(200, sse(delta("Hel"), delta("lo"), {"choices": [], "usage": USAGE}))
    assert "".join(piece.text for piece in pieces) == "Hello"
    assert pieces[-1].usage == Usage(9, 2, 4)


def test_an_error_before_the_stream_carries_the_servers_message() -> None:
    body = json.dumps({"error": {"message": "messages is too long"}})
    with pytest.raises(StokerError, match="400: messages is too long"):
        replies(400, body)


def test_an_error_inside_the_stream_is_raised() -> None:
    with pytest.raises(StokerError, match="engine died"):
        replies(200, sse(delta("He"), {"error": {"message": "engine died"}}))


def test_a_server_that_speaks_no_json_is_quoted() -> None:
    with pytest.raises(StokerError, match="502: Bad Gateway"):
        replies(502, "Bad Gateway")


def test_a_server_that_goes_away_is_one_line() -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset", request=request)

    async def ask() -> None:
        client = httpx.AsyncClient(base_url="http://server", transport=httpx.MockTransport(gone))
        async for _ in ServerBackend(client, "m", 0.0, 8).reply([]):
            pass

    with pytest.raises(StokerError, match="lost the server: connection reset"):
        asyncio.run(ask())


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_the_url_may_be_the_one_that_the_official_client_takes(end: str) -> None:
    async def model(url: str) -> str:
        backend = await ServerBackend.connect(url, None, None, 8)
        await backend.close()
        return backend.model

    api = Api()
    with serving(api) as server:
        assert asyncio.run(model(server.url + end)) == api.state.model_name
