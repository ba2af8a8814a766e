"""Engine processes that are killed, orphaned, hung or interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from stoker.core.config import EngineConfig
from stoker.core.errors import EngineDead
from stoker.core.request import Request, SamplingParams
from stoker.engine.client import EngineClient
from stoker.engine.wire import Start, Submit, decode_from_engine, encode
from tests.support.engine import DIE, RAISE, ROOT, Scenario, scripted_command
from tests.support.processes import eventually, is_gone, scripted_client, text_of, wait_gone

LONG = SamplingParams(max_tokens=400)


async def works(client: EngineClient) -> bool:
    try:
        client.check_health()
        return len(await text_of(client, b"again", SamplingParams(max_tokens=3))) == 3
    except EngineDead:
        return False


def test_a_killed_engine_ends_streams_fails_health_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "stoker.engine.supervisor")

    async def scenario() -> None:
        async with scripted_client(Scenario(delay_s=0.01)) as client:
            client.check_health()
            running = [asyncio.create_task(text_of(client, bytes([b]), LONG)) for b in range(3, 9)]
            await asyncio.sleep(0.2)
            first = client.engine_pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            killed = time.monotonic()
            ended = await asyncio.gather(*running, return_exceptions=True)
            assert [type(e) for e in ended] == [EngineDead] * 6
            assert "SIGKILL" in str(ended[0])
            assert time.monotonic() - killed < 3.0
            with pytest.raises(EngineDead):
                client.check_health()
            assert not client.ready
            with pytest.raises(EngineDead):
                await text_of(client, b"too early", LONG)
            await eventually(lambda: works(client), "a new engine works")
            assert client.engine_pid != first

    asyncio.run(scenario())
    down, up = (record.getMessage() for record in caplog.records)
    assert "SIGKILL" in down and "starting it again" in down
    assert up == "the engine is ready again"


@pytest.mark.parametrize("prompt", [[DIE], [RAISE]], ids=["dies in a step", "fails three steps"])
def test_an_engine_that_breaks_itself_is_replaced(prompt: list[int]) -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario()) as client:
            first = client.engine_pid
            for _ in range(3):
                with pytest.raises(Exception, match=r"SIGKILL|step failed|in a row|started again"):
                    async for _ in client.generate(prompt, LONG):
                        pass
            await eventually(lambda: works(client), "a new engine works")
            assert client.engine_pid != first

    asyncio.run(scenario())


def test_a_hung_engine_fails_health_but_a_busy_one_does_not() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario(delay_s=0.2), health_timeout_s=2.5) as client:
            busy = asyncio.create_task(text_of(client, b"a", SamplingParams(max_tokens=10)))
            while not busy.done():
                client.check_health()
                await asyncio.sleep(0.05)
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGSTOP)
            await asyncio.sleep(3.0)
            with pytest.raises(EngineDead, match="no sign of life"):
                client.check_health()
            os.kill(client.engine_pid, signal.SIGCONT)
            await eventually(lambda: works(client), "it works when it goes on")
            os.kill(client.engine_pid, signal.SIGSTOP)
            # Leaving closes the client: a process that answers nothing is killed.

    asyncio.run(scenario())


def test_signals_to_the_group_leave_the_engine_to_its_parent() -> None:
    async def scenario() -> None:
        async with scripted_client(Scenario(delay_s=0.01)) as client:
            running = asyncio.create_task(text_of(client, b"a", SamplingParams(max_tokens=50)))
            await asyncio.sleep(0.1)
            assert client.engine_pid is not None
            os.kill(client.engine_pid, signal.SIGINT)
            os.kill(client.engine_pid, signal.SIGTERM)
            assert len(await running) == 50

    asyncio.run(scenario())


@pytest.mark.parametrize("folder", ["short", "long" * 30])
def test_the_socket_leaves_no_file_behind(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the path is too long for a Unix socket, a local port does the same."""
    place = tmp_path / folder
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))

    async def scenario() -> None:
        async with scripted_client(Scenario()) as client:
            assert await works(client)
            assert not list(place.iterdir()), "nothing is left even if we were killed now"

    asyncio.run(scenario())
    assert not list(place.iterdir())


PARENT = f"""
import asyncio, sys
sys.path[:0] = [{str(ROOT / "src")!r}, {str(ROOT)!r}]
from tests.support.engine import Scenario
from tests.support.processes import scripted_client, text_of
from stoker.core.request import SamplingParams

async def main():
    async with scripted_client(Scenario(delay_s=float(sys.argv[1]))) as client:
        print(client.engine_pid, flush=True)
        await text_of(client, b"for ever", SamplingParams(max_tokens=500))

asyncio.run(main())
"""


@pytest.mark.parametrize("delay_s", [0.01, 60.0], ids=["between steps", "in a long step"])
def test_no_engine_outlives_a_killed_parent(delay_s: float) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(delay_s)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    engine = int(parent.stdout.readline())
    time.sleep(0.3)
    assert not is_gone(engine)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_gone(engine, 5.0), f"engine process {engine} still runs"


@pytest.fixture
def bare_engine() -> Iterator[tuple[subprocess.Popen[bytes], zmq.Socket[bytes]]]:
    """An engine process without a client: its stdin and its socket."""
    context = zmq.Context()
    inbox = context.socket(zmq.PAIR)
    port = inbox.bind_to_random_port("tcp://127.0.0.1")
    process = subprocess.Popen(scripted_command(Scenario(delay_s=60.0)), stdin=subprocess.PIPE)
    assert process.stdin is not None
    start = Start(config=EngineConfig(), address=f"tcp://127.0.0.1:{port}")
    process.stdin.write(msgspec.json.encode(start) + b"\n")
    process.stdin.flush()
    yield process, inbox
    process.kill()
    process.wait()
    context.destroy(linger=0)


def test_the_engine_ends_with_its_stdin_even_in_the_middle_of_a_step(
    bare_engine: tuple[subprocess.Popen[bytes], zmq.Socket[bytes]],
) -> None:
    process, inbox = bare_engine
    for _ in range(3):  # two progress reports and Ready
        assert inbox.poll(10_000)
        decode_from_engine(inbox.recv())
    request = Request(id="r", prompt_token_ids=[5], params=LONG)
    inbox.send(encode(Submit(request)))
    time.sleep(0.3)
    assert process.poll() is None and process.stdin is not None
    process.stdin.close()
    assert process.wait(2.0) == 0
