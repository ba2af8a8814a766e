"""The demo model behind HTTP under 64 streams, many of them cut off: nothing leaks, nothing grows.

`make soak` runs it for a minute (`--soak-seconds 60`); the suite runs it for a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time

import httpx
import psutil
import pytest

from stoker.core.errors import CheckpointError
from stoker.weights.demo import demo_model
from tests.support.processes import Server, children, running_server

NUM_STREAMS = 64
NUM_PAGES = 160
MAX_GROWTH = 24 << 20
WORDS = ["coal", "fire", "steam", "water", "iron", "boiler", "shovel", "heat", "ash", "valve"]


def page_states(url: str) -> dict[str, int]:
    """KV pages by state, from /metrics."""
    text = httpx.get(f"{url}/metrics").text
    found = re.findall(r'stoker:kv_pages\{.*state="(\w+)"\} (\d+)', text)
    return {state: int(count) for state, count in found}


async def visitor(url: str, dice: random.Random, until: float) -> int:
    """One stream after another, about half of them left early. Returns how many got a token."""
    answered = 0
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        while time.monotonic() < until:
            body = {
                "prompt": " ".join(dice.choice(WORDS) for _ in range(dice.randrange(1, 200))),
                "max_tokens": dice.randrange(1, 40),
                "ignore_eos": True,
                "stream": True,
                "n": dice.choice((1, 1, 1, 2)),
            }
            patience_s = dice.choice((60.0, dice.uniform(0, 3)))
            with contextlib.suppress(TimeoutError):
                async with (
                    asyncio.timeout(patience_s),
                    http.stream("POST", "/v1/completions", json=body) as response,
                ):
                    assert response.status_code == 200, await response.aread()
                    async for line in response.aiter_lines():
                        assert '"error"' not in line, line
                        answered += line.startswith("data: {")
    return answered


def footprint(server: Server) -> list[tuple[int, int]]:
    """Resident bytes and open files of the server process and of its engine."""
    processes = [psutil.Process(server.process.pid), psutil.Process(server.engine_pid)]
    return [(p.memory_info().rss, p.num_fds()) for p in processes]


def touch_every_page(url: str) -> None:
    """The system commits a KV page when it is first written: that growth is no leak."""
    for start in range(2 * NUM_PAGES * 16 // 480):
        prompt = [1000 + start] * 480
        response = httpx.post(
            f"{url}/v1/completions", json={"prompt": prompt, "max_tokens": 1}, timeout=60
        )
        assert response.status_code == 200, response.text


async def soak(server: Server, seconds: float) -> tuple[int, list[tuple[int, int]]]:
    """Stream for `seconds`; returns answered chunks and the footprint after a third of the time."""
    until = time.monotonic() + seconds
    visitors = [
        asyncio.create_task(visitor(server.url, random.Random(seed), until))
        for seed in range(NUM_STREAMS)
    ]
    await asyncio.sleep(seconds / 3)
    warm = footprint(server)
    return sum(await asyncio.gather(*visitors)), warm


def test_disconnecting_clients_leave_nothing_behind(pytestconfig: pytest.Config) -> None:
    try:
        demo_model()
    except CheckpointError as error:
        pytest.skip(str(error))
    arguments = ["--num-pages", str(NUM_PAGES), "--max-num-seqs", "16", "--max-model-len", "512"]
    with running_server(arguments) as server:
        server.wait_ready()
        engine = server.engine_pid
        touch_every_page(server.url)
        answered, warm = asyncio.run(soak(server, pytestconfig.getoption("--soak-seconds")))
        assert answered > NUM_STREAMS

        deadline = time.monotonic() + 10
        while (pages := page_states(server.url))["held"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert pages["held"] == pages["leased"] == 0
        assert sum(pages.values()) == NUM_PAGES
        time.sleep(1.5)  # the engine checks its books when it is idle, and ends if they are wrong
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert [p.pid for p in children(server.process.pid)] == [engine], "the first engine, alone"

        for (rss, fds), (warm_rss, warm_fds) in zip(footprint(server), warm, strict=True):
            assert rss - warm_rss < MAX_GROWTH
            assert fds <= warm_fds, "sockets of clients that left are closed"
