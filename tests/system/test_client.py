"""EngineClient against a real engine process with a scripted runner."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest

from stoker.core.config import EngineConfig
from stoker.core.errors import (
    ContextLengthExceeded,
    EngineDead,
    InvalidRequest,
    Overloaded,
    StartupError,
    StokerError,
)
from stoker.core.request import FinishReason, Output, SamplingParams
from stoker.engine.client import EngineClient
from tests.support.engine import RAISE, ByteTokenizer, Scenario, scripted_command
from tests.support.processes import children, eventually, scripted_client, text_of

LONG = SamplingParams(max_tokens=400)


def test_answers_are_functions_of_the_request() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario(audit=True)) as client:
            prompts = [bytes([b] * 40) for b in range(3, 19)]
            params = SamplingParams(max_tokens=20, seed=7)
            alone = [await text_of(client, p, params) for p in prompts]
            again = await asyncio.gather(*(text_of(client, p, params) for p in prompts))
            assert alone == list(again)
            assert client.stats.prefix_hits > 0

    asyncio.run(scenario())


def test_a_reset_forgets_prefixes_while_others_run() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario(audit=True, delay_s=0.002)) as client:
            prompt, params = bytes([7] * 64), SamplingParams(max_tokens=4)

            async def cached() -> int:
                pieces = [o async for o in client.generate(list(prompt), params)]
                return pieces[-1].usage.cached_tokens

            assert [await cached(), await cached()] == [0, 48]
            running = asyncio.create_task(text_of(client, prompt, SamplingParams(max_tokens=60)))
            await eventually(lambda: client.stats.num_running == 1, "one runs")
            await client.reset_prefix_cache()
            assert await cached() == 0
            assert len(await running) == 60
            await client.reset_prefix_cache()
            await eventually(lambda: client.stats.pages_free == 256, "no page is left cached")

    asyncio.run(scenario())


def test_choices_are_interleaved_and_each_ends() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario()) as client:
            params = SamplingParams(max_tokens=8, n=3, logprobs=2)
            pieces = [o async for o in client.generate(list(b"abc"), params)]
            texts = ["".join(p.text for p in pieces if p.choice == c) for c in range(3)]
            assert {len(t) for t in texts} == {8}
            assert len(set(texts)) == 3
            assert sum(p.finish_reason is FinishReason.LENGTH for p in pieces) == 3
            assert all(p.logprobs is not None for p in pieces if p.token_ids)

    asyncio.run(scenario())


def test_a_stop_string_ends_the_request_in_the_engine() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario(answer="one two " * 50, delay_s=0.002)) as client:
            params = SamplingParams(max_tokens=300, stop=("two one",))
            pieces = [o async for o in client.generate(list(b"abc"), params)]
            assert "".join(p.text for p in pieces) == "one "
            assert pieces[-1].stop_reason == "two one"
            await eventually(lambda: client.stats.num_running == 0, "the engine forgot it")
            assert client.stats.generation_tokens < 100
            assert client.stats.pages_held == 0

    asyncio.run(scenario())


def test_bad_requests_are_refused_and_a_good_one_works_after_each() -> None:
    refused: list[tuple[list[int], SamplingParams, type[StokerError], int]] = [
        ([], SamplingParams(), InvalidRequest, 400),
        ([999], SamplingParams(), InvalidRequest, 400),
        ([5] * 512, SamplingParams(), ContextLengthExceeded, 400),
        ([5], SamplingParams(temperature=-1.0), InvalidRequest, 400),
        ([5], SamplingParams(stop=("\ud800",)), InvalidRequest, 400),
        ([5] * 100, SamplingParams(max_tokens=100), StokerError, 400),  # larger than the pool
        ([RAISE], SamplingParams(), StokerError, 500),
    ]

    async def scenario() -> None:
        async with scripted_client(Scenario(num_pages=8)) as client:
            for prompt, params, kind, status in refused:
                with pytest.raises(kind) as caught:
                    async for _ in client.generate(prompt, params):
                        pass
                assert caught.value.status == status
                assert len(await text_of(client, b"good", SamplingParams(max_tokens=5))) == 5

    asyncio.run(scenario())


def test_the_queue_has_an_end() -> None:
    async def scenario() -> None:
        config = EngineConfig(max_queue=1)
        async with scripted_client(Scenario(max_num_seqs=1, delay_s=0.005), config) as client:
            running = [asyncio.create_task(text_of(client, b"a", LONG)) for _ in range(2)]
            await asyncio.sleep(0.05)
            with pytest.raises(Overloaded):
                await text_of(client, b"b", LONG)
            with pytest.raises(InvalidRequest, match="at most 2 choices"):
                await text_of(client, b"b", SamplingParams(n=3))
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            assert len(await text_of(client, b"c", SamplingParams(max_tokens=3))) == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("phase", ["queued", "prefill", "decode"])
def test_a_consumer_that_goes_away_frees_its_pages(phase: str) -> None:
    async def scenario() -> None:
        small = Scenario(
            delay_s=0.02, max_num_seqs=2, max_num_batched_tokens=8, num_pages=64, audit=True
        )
        async with scripted_client(small) as client:
            others = []
            if phase == "queued":
                others = [asyncio.create_task(text_of(client, b"x", LONG)) for _ in range(2)]
                await eventually(lambda: client.stats.num_running == 2, "two run")
            stream = client.generate([7] * (300 if phase == "prefill" else 5), LONG)
            if phase == "decode":
                await anext(stream)
                await stream.aclose()
            else:
                waiting = asyncio.ensure_future(anext(stream))
                if phase == "prefill":
                    await eventually(lambda: client.stats.pages_held > 1, "it computes")
                    assert client.stats.generation_tokens == 0
                else:
                    await eventually(lambda: client.stats.num_waiting == 1, "it waits")
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
            for task in others:
                task.cancel()
            await eventually(
                lambda: client.stats.num_running + client.stats.num_waiting == 0, "all ended"
            )
            assert client.stats.pages_held == 0
            assert client.stats.pages_free + client.stats.pages_cached == 64

    asyncio.run(scenario())


def test_a_busy_engine_does_not_hold_up_a_stream() -> None:
    """Pieces come while later steps still run, and the API's event loop is free meanwhile."""

    async def scenario() -> None:
        async with scripted_client(Scenario(delay_s=0.4)) as client:
            beats = 0

            async def heartbeat() -> None:
                nonlocal beats
                while True:
                    await asyncio.sleep(0.01)
                    beats += 1

            heart = asyncio.create_task(heartbeat())
            seen: list[int] = []
            async for _ in client.generate(list(b"slow"), SamplingParams(max_tokens=4)):
                seen.append(beats)
            heart.cancel()
            assert len(seen) == 4, "pieces came one by one"
            assert all(after - before > 3 for before, after in itertools.pairwise(seen))

    asyncio.run(scenario())


def test_a_slow_consumer_gets_merged_pieces_and_the_same_text() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario()) as client:
            fast = await text_of(client, b"abc", LONG)
            pieces: list[Output] = []
            async for output in client.generate(list(b"abc"), LONG):
                pieces.append(output)
                await asyncio.sleep(0.1)
            assert "".join(p.text for p in pieces) == fast
            assert len(pieces) < 200

    asyncio.run(scenario())


def test_a_closed_client_takes_no_requests() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario()) as client:
            await client.close()
            assert not client.ready
            with pytest.raises(EngineDead, match="started again"):
                await text_of(client, b"b", LONG)

    asyncio.run(scenario())


def test_loading_is_reported() -> None:
    async def scenario() -> None:
        seen: list[tuple[int, int]] = []
        client = EngineClient(
            EngineConfig(),
            ByteTokenizer(),  # type: ignore[arg-type]
            command=scripted_command(Scenario()),
            on_progress=lambda done, total: seen.append((done, total)),
        )
        with pytest.raises(EngineDead, match="not started"):
            _ = client.info
        await client.start()
        await client.close()
        assert seen[-1] == (2, 2)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (scripted_command(Scenario(cannot_start="no such model")), "no such model"),
        (("/bin/false",), "exit code 1"),
        (("/no/such/program",), "No such file"),
    ],
)
def test_an_engine_that_cannot_start_is_one_clear_error(
    command: tuple[str, ...], message: str
) -> None:
    async def scenario() -> None:
        client = EngineClient(EngineConfig(), ByteTokenizer(), command=command)  # type: ignore[arg-type]
        with pytest.raises(StartupError, match=message):
            await client.start()
        assert not children()
        await client.close()

    asyncio.run(scenario())
