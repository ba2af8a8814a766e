"""The queue to one consumer: merged while it sleeps, ended by an error after what waits."""

from __future__ import annotations

import asyncio

import pytest

from stoker.core.request import FinishReason, Output
from stoker.engine.stream import OutputStream


def piece(text: str, choice: int = 0, reason: FinishReason | None = None) -> Output:
    return Output(choice=choice, text=text, token_ids=(len(text),), finish_reason=reason)


def test_pieces_of_a_sleeping_consumer_merge() -> None:
    async def scenario() -> None:
        stream = OutputStream(2)
        for text in ("a", "b", "c"):
            stream.put(piece(text))
        stream.put(piece("x", choice=1, reason=FinishReason.STOP))
        first, second = await stream.take()
        assert (first.text, first.token_ids, first.finish_reason) == ("abc", (1, 1, 1), None)
        assert (second.choice, second.text) == (1, "x")
        stream.put(piece("d", reason=FinishReason.LENGTH))
        assert [p.text for p in await stream.take()] == ["d"]
        assert await stream.take() == []

    asyncio.run(scenario())


def test_an_error_comes_after_what_waits() -> None:
    async def scenario() -> None:
        stream = OutputStream(1)
        stream.put(piece("a"))
        stream.fail(ValueError("first"))
        stream.fail(ValueError("second"))
        assert [p.text for p in await stream.take()] == ["a"]
        with pytest.raises(ValueError, match="first"):
            await stream.take()

    asyncio.run(scenario())


def test_a_waiting_consumer_wakes() -> None:
    async def scenario() -> None:
        stream = OutputStream(1)
        waiting = asyncio.create_task(stream.take())
        await asyncio.sleep(0)
        stream.put(piece("a"))
        assert [p.text for p in await asyncio.wait_for(waiting, 1)] == ["a"]

    asyncio.run(scenario())
