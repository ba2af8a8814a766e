"""The socket and the drain. Bug case 28: vllm #24885, PR 36666; sglang PR 1838."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from stoker.api.server import HttpServer
from stoker.core.config import ServeConfig
from stoker.core.errors import StartupError
from tests.support.api_app import CHAT, HI, Api
from tests.support.fake_engine import FakeEngine, FakeTokenizer
from tests.support.http_server import ServerThread, serving


def slow_api(steps: int) -> Api:
    return Api(FakeEngine(FakeTokenizer(), [[120]] * steps, step_s=0.02))


class Call:
    """A chat request in a thread of its own."""

    def __init__(self, server: ServerThread, stream: bool) -> None:
        self.answer: httpx.Response | None = None
        self._url = server.url + CHAT
        self._body = {"messages": HI, "stream": stream}
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.answer = httpx.post(self._url, json=self._body, timeout=20)

    def result(self) -> httpx.Response:
        self.thread.join(20)
        assert self.answer is not None
        return self.answer


def wait_for(condition: Any, timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_drain_refuses_new_work_and_finishes_the_old() -> None:
    api = slow_api(40)
    with serving(api) as server:
        calls = [Call(server, stream) for stream in (True, False)]
        wait_for(lambda: len(api.engine.calls) == 2)
        server.stop()
        wait_for(lambda: api.state.is_draining)
        refused = httpx.post(server.url + CHAT, json={"messages": HI})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "draining"
        assert int(refused.headers["retry-after"]) > 0
        assert httpx.get(server.url + "/ready").status_code == 503
        streamed, whole = (call.result() for call in calls)
        assert streamed.text.endswith("data: [DONE]\n\n")
        assert whole.json()["choices"][0]["message"]["content"] == "x" * 40
        assert server.join(5)


def test_what_outlasts_the_drain_ends_with_an_error() -> None:
    api = slow_api(400)
    with serving(api, drain_timeout_s=0.2) as server:
        calls = [Call(server, stream) for stream in (True, False)]
        wait_for(lambda: len(api.engine.calls) == 2)
        time.sleep(0.1)
        server.stop()
        streamed, whole = (call.result() for call in calls)
        last = streamed.text.strip().split("\n\n")[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "draining"
        assert whole.status_code == 503
        assert server.join(5)
    assert all(call.is_aborted for call in api.engine.calls)


def test_a_second_signal_stops_at_once() -> None:
    api = slow_api(400)
    with serving(api, drain_timeout_s=60) as server:
        call = Call(server, stream=True)
        wait_for(lambda: len(api.engine.calls) == 1)
        started = time.monotonic()
        server.stop()
        server.stop()
        assert server.join(5)
        assert time.monotonic() - started < 4
        call.thread.join(5)


def test_a_drain_says_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stoker.api.server")
    api = slow_api(20)
    with serving(api, drain_timeout_s=7) as server:
        call = Call(server, stream=False)
        wait_for(lambda: len(api.engine.calls) == 1)
        server.stop()
        call.result()
        assert server.join(5)
    assert [r.getMessage() for r in caplog.records if r.name == "stoker.api.server"] == [
        "stopping: 1 running, at most 7 s to finish; a second Ctrl-C stops at once"
    ]


def test_a_taken_port_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartupError) as caught:
            HttpServer(Api().app, ServeConfig(port=port))
    assert caught.value.param == "port"
    assert caught.value.message == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port"
    )


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(StartupError, match=f"port is {port}, but must be") as caught:
        HttpServer(Api().app, ServeConfig(port=port))
    assert caught.value.param == "port"


def test_a_closed_connection_aborts_in_the_engine() -> None:
    api = slow_api(400)
    with serving(api) as server:
        with httpx.stream("POST", server.url + CHAT, json={"messages": HI, "stream": True}) as s:
            next(s.iter_bytes())
        wait_for(lambda: api.engine.calls[0].is_aborted, 1.0)
        with pytest.raises(httpx.TimeoutException):
            httpx.post(server.url + CHAT, json={"messages": HI}, timeout=0.2)
        wait_for(lambda: api.engine.calls[1].is_aborted, 1.0)
        assert len(api.state.in_flight) == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_closed_connection_aborts_also_before_pipelined_requests(stream: bool) -> None:
    api = slow_api(2000)
    body = json.dumps({"messages": HI, "stream": stream}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with serving(api) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request * 3)
            wait_for(lambda: api.engine.calls)
        wait_for(lambda: not api.state.in_flight)
        assert len(api.engine.calls) == 1
