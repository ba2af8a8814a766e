"""What a client of `stoker serve` sees when the engine process is killed, and afterwards."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import httpx

from tests.support.checkpoints import make_tiny
from tests.support.processes import running_server, wait_gone

BODY = {"prompt": "coal", "max_tokens": 200, "ignore_eos": True, "temperature": 0.0}


def test_a_killed_engine_ends_streams_with_an_error_event_and_comes_back(tmp_path: Path) -> None:
    make_tiny("llama", tmp_path)
    with running_server([str(tmp_path)]) as server:
        server.wait_ready()
        url = f"{server.url}/v1/completions"
        before = httpx.post(url, json=BODY, timeout=60).json()["choices"]

        engine = server.engine_pid
        os.kill(engine, signal.SIGSTOP)  # so that the stream cannot end before the kill
        body = BODY | {"stream": True}
        with httpx.stream("POST", url, json=body, timeout=60) as response:
            assert response.status_code == 200
            os.kill(engine, signal.SIGKILL)
            lines = [line for line in response.iter_lines() if line.startswith("data: ")]
        error = json.loads(lines[-1].removeprefix("data: "))["error"]
        assert error["code"] == "engine_dead"
        assert wait_gone(engine, 5)

        health = httpx.get(f"{server.url}/health")
        assert health.status_code == 503
        assert health.json()["error"]["code"] == "engine_dead"
        assert httpx.post(url, json=BODY, timeout=60).status_code == 503

        started = time.monotonic()
        server.wait_ready()
        assert server.engine_pid != engine, f"a new engine after {time.monotonic() - started:.1f} s"
        assert httpx.post(url, json=BODY, timeout=60).json()["choices"] == before
