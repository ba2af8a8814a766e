"""Many streams, many of them cut off at random: nothing leaks, nothing grows.

`make soak` runs it for a minute (`--soak-seconds 60`); the suite runs it for a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import psutil
import pytest

from stoker.core.config import EngineConfig
from stoker.core.request import SamplingParams
from stoker.engine.client import EngineClient
from tests.support.engine import Scenario
from tests.support.processes import children, eventually, scripted_client

NUM_STREAMS = 64
NUM_PAGES = 100
MAX_GROWTH = 16 << 20


async def consumer(client: EngineClient, dice: random.Random, until: float) -> int:
    """One stream after another; half of them are left before their end. Returns how many."""
    streams = 0
    while time.monotonic() < until:
        prompt = [dice.randrange(3, 50)] * dice.randrange(1, 120)
        params = SamplingParams(max_tokens=dice.randrange(1, 100), n=dice.choice((1, 1, 2)))
        patience_s = dice.choice((1e9, dice.uniform(0, 0.3)))
        with contextlib.suppress(TimeoutError):
            async with (
                asyncio.timeout(patience_s),
                contextlib.aclosing(client.generate(prompt, params)) as pieces,
            ):
                async for _ in pieces:
                    if dice.random() < 0.01:
                        break
        streams += 1
    return streams


def test_random_disconnects_leave_nothing_behind(pytestconfig: pytest.Config) -> None:
    seconds: float = pytestconfig.getoption("--soak-seconds")

    async def scenario() -> None:
        engine = Scenario(delay_s=0.001, num_pages=NUM_PAGES, max_num_seqs=32)
        async with scripted_client(engine, EngineConfig()) as client:
            processes = [psutil.Process(), psutil.Process(client.engine_pid)]
            until = time.monotonic() + seconds
            dice = random.Random(1)
            consumers = [
                asyncio.create_task(consumer(client, random.Random(dice.random()), until))
                for _ in range(NUM_STREAMS)
            ]
            await asyncio.sleep(seconds / 3)
            warm = [p.memory_info().rss for p in processes]
            streams = sum(await asyncio.gather(*consumers))
            growth = [p.memory_info().rss - w for p, w in zip(processes, warm, strict=True)]

            await eventually(
                lambda: client.stats.num_running + client.stats.num_waiting == 0, "all ended"
            )
            stats = client.stats
            assert stats.pages_held == 0
            assert stats.pages_leased == 0
            assert stats.pages_free + stats.pages_cached == NUM_PAGES
            assert streams > NUM_STREAMS and stats.num_preemptions > 0
            await asyncio.sleep(1.5)  # the engine checks its books when it is idle
            client.check_health()
            assert [p.pid for p in children()] == [client.engine_pid], "the first engine, alone"
            assert processes[1].is_running()
            assert max(growth) < MAX_GROWTH, f"grown by {growth} bytes after the warm-up"

    asyncio.run(scenario())
