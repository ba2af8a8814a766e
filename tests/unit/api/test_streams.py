"""Disconnects, keep-alive, errors after the first byte, and the queue between engine and answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from stoker.api import answer as answer_module
from stoker.api.streams import InFlight, RequestOutputs
from stoker.core.errors import RequestFailed
from stoker.core.request import Output, SamplingParams
from tests.support.api_app import CHAT, COMPLETIONS, HI, Api, RawCall, chunks, error_of, events
from tests.support.fake_engine import Call, FakeEngine, FakeTokenizer

ENDLESS = [[120]] * 500


async def _source(*items: Output | Exception) -> AsyncIterator[Output]:
    for item in items:
        await asyncio.sleep(0)
        if isinstance(item, Exception):
            raise item
        yield item


def test_pairs_then_the_error_in_order() -> None:
    async def main() -> list[tuple[int, str]]:
        stream = RequestOutputs([_source(Output(choice=0, text="a"), RequestFailed("x"))])
        seen = []
        with pytest.raises(RequestFailed):
            while await stream.wait(1):
                if (item := stream.take()) is not None:
                    seen.append((item[0], item[1].text))
        await stream.close()
        return seen

    assert asyncio.run(main()) == [(0, "a")]


def test_the_end_comes_after_all_sources() -> None:
    async def main() -> set[int]:
        sources = [_source(Output(choice=0)), _source(), _source(Output(choice=0))]
        stream = RequestOutputs(sources)
        seen = set()
        while not stream.is_over:
            await stream.wait(1)
            if (item := stream.take()) is not None:
                seen.add(item[0])
        return seen

    assert asyncio.run(main()) == {0, 2}


def test_a_source_that_ends_early_does_not_keep_the_loop_busy() -> None:
    async def late() -> AsyncIterator[Output]:
        await asyncio.sleep(0.05)
        yield Output(choice=0)

    async def main() -> int:
        stream = RequestOutputs([_source(), late()])
        rounds = 0
        while not stream.is_over:
            await stream.wait(1)
            stream.take()
            rounds += 1
        return rounds

    assert asyncio.run(main()) <= 4


def test_waiting_has_a_deadline_and_fail_ends_from_outside() -> None:
    async def main() -> None:
        engine = FakeEngine(FakeTokenizer(), first_step_s=60)
        in_flight = InFlight()
        stream = RequestOutputs([engine.generate([1], SamplingParams())])
        in_flight.add(stream, {"a"})
        assert not await stream.wait(0.01)
        assert not await in_flight.wait_idle(0.01)
        assert in_flight.fail(None, RequestFailed("stopped")) == 1
        assert await stream.wait(1)
        with pytest.raises(RequestFailed):
            stream.take()
        await stream.close()
        in_flight.remove(stream)
        assert await in_flight.wait_idle(0)
        assert engine.calls[0].is_aborted

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("phase", ["queued", "running"])
def test_a_disconnect_aborts_at_any_stage(stream: bool, phase: str) -> None:
    """Bug cases 21 and 35: sglang #36333, ROCm/ATOM PR 1562. Also without streaming."""
    engine = FakeEngine(FakeTokenizer(), ENDLESS, step_s=0.005)
    engine.first_step_s = 60.0 if phase == "queued" else 0.0
    api = Api(engine)

    async def main() -> None:
        call = RawCall(api.app, CHAT, {"messages": HI, "stream": stream, "n": 2})
        await asyncio.sleep(0.1)
        assert len(api.state.in_flight) == 1
        call.disconnect()
        await asyncio.wait_for(call.task, 1)

    asyncio.run(main())
    assert engine.calls[0].is_aborted
    assert len(api.state.in_flight) == 0
    page = api.get("/metrics").text
    assert 'stoker:request_success_total{finished_reason="abort",model_name="fake"} 2.0' in page


def test_a_client_that_goes_before_the_first_byte_leaves_nothing_behind() -> None:
    engine = FakeEngine(FakeTokenizer(), ENDLESS, step_s=0.005)
    api = Api(engine)

    class Gone(RawCall):
        async def _send(self, message: dict[str, object]) -> None:
            raise OSError("connection reset")

    async def main() -> None:
        call = Gone(api.app, CHAT, {"messages": HI, "stream": True})
        await asyncio.wait_for(call.task, 2)
        assert len(api.state.in_flight) == 0

    asyncio.run(main())
    assert engine.calls[0].is_aborted


def test_what_came_before_an_error_is_still_sent() -> None:
    engine = FakeEngine(FakeTokenizer(), failure=RequestFailed("broke"))
    payloads = events(Api(engine).chat(stream=True))  # all of it lies ready at once
    texts = [p["choices"][0]["delta"].get("content", "") for p in payloads[:-1]]
    assert "".join(texts) == "Hi"
    assert payloads[-1]["error"]["message"] == "broke"


def test_a_silent_stream_keeps_the_connection_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "KEEP_ALIVE_S", 0.02)
    monkeypatch.setattr(answer_module, "ACCEPT_S", 0.01)
    response = Api(FakeEngine(FakeTokenizer(), first_step_s=0.1)).chat(stream=True)
    assert response.text.startswith(": keep-alive\n\n")
    told = [block for block in response.text.split("\n\n") if block.startswith("data: ")]
    assert told[-1] == "data: [DONE]"


def test_an_error_after_the_first_byte_is_an_event_and_then_the_end() -> None:
    """Bug case 34: EricLBuehler/mistral.rs #1874, lemonade-sdk/lemonade #2826."""
    failure = RequestFailed("non-finite logits")
    engine = FakeEngine(FakeTokenizer(), step_s=0.01, failure=failure)
    payloads = events(Api(engine).chat(stream=True))
    assert payloads[0]["choices"][0]["delta"]["role"] == "assistant"
    assert payloads[-1] == {
        "error": {
            "message": "non-finite logits",
            "type": "server_error",
            "param": None,
            "code": "request_failed",
        }
    }
    assert "[DONE]" not in payloads


def test_one_failed_prompt_ends_the_others() -> None:
    def script(call: Call, choice: int) -> list[list[int]]:
        return [[120]] if call.prompt_token_ids == [1] else ENDLESS

    failure = RequestFailed("broke")
    engine = FakeEngine(FakeTokenizer(), script, step_s=0.005, failure=failure)
    answer = Api(engine).complete(prompt=[[1], [2]], max_tokens=400)
    assert answer.status_code == 500
    assert error_of(answer)["message"] == "broke"
    assert [call.is_aborted for call in engine.calls] == [False, True]


def test_a_long_prompt_is_tokenized_beside_the_event_loop() -> None:
    class SlowTokenizer(FakeTokenizer):
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            time.sleep(0.3)
            return super().encode(text, add_special_tokens)[:9]

    api = Api(FakeEngine(SlowTokenizer()))

    async def scenario(client: httpx.AsyncClient) -> float:
        await client.get("/health")
        long = asyncio.create_task(client.post(COMPLETIONS, json={"prompt": "x" * 100_000}))
        await asyncio.sleep(0.05)
        started = time.monotonic()
        await client.get("/health")
        took = time.monotonic() - started
        assert not long.done()
        assert (await long).status_code == 200
        return took

    assert api.session(scenario) < 0.2


def test_a_long_stream_is_whole() -> None:
    parts = chunks(Api(FakeEngine(FakeTokenizer(), ENDLESS, max_model_len=600)).chat(stream=True))
    assert sum(len(p["choices"][0]["delta"].get("content", "")) for p in parts) == 500


def test_a_long_backlog_leaves_turns_to_others() -> None:
    async def endless() -> AsyncIterator[Output]:
        for _ in range(2000):
            yield Output(choice=0, text="a")

    async def main() -> tuple[int, int]:
        stream = RequestOutputs([endless()])
        await asyncio.sleep(0.01)  # all of it lies ready now
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        taken = 0
        while not stream.is_over:
            await stream.wait(None)
            taken += stream.take() is not None
        task.cancel()
        return taken, turns

    taken, turns = asyncio.run(main())
    assert taken == 2000
    assert turns >= taken
