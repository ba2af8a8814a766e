"""What operators do: abort by id, reset the prefix cache, render; and what the access log says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from stoker.core.config import ServeConfig
from tests.support.api_app import CHAT, COMPLETIONS, HI, Api, RawCall, error_of
from tests.support.fake_engine import FakeEngine, FakeTokenizer


def endless() -> Api:
    return Api(FakeEngine(FakeTokenizer(), [[120]] * 5000, step_s=0.005))


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def access_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(r.getMessage()) for r in caplog.records if r.name == "stoker.access"]


@pytest.mark.parametrize("by", ["X-Request-Id", "the answer's id", "all"])
def test_abort_ends_a_request_with_an_error_and_no_other(by: str) -> None:
    api = endless()

    async def scenario(client: httpx.AsyncClient) -> None:
        body = {"messages": HI, "stream": True}
        streams = [RawCall(api.app, CHAT, body, {"x-request-id": name}) for name in ("a", "b")]
        for stream in streams:
            await stream.first_body.wait()
        payload = streams[0].sent[1]["body"].split(b"\n\n")[0].removeprefix(b"data: ")
        ids = {"X-Request-Id": "a", "the answer's id": json.loads(payload)["id"]}
        abort = {"all": True} if by == "all" else {"request_ids": [ids[by], "unknown"]}
        answer = await client.post("/abort", json=abort)
        assert answer.json() == {"aborted": 2 if by == "all" else 1}
        await streams[0].task
        last = b"".join(m.get("body", b"") for m in streams[0].sent).split(b"\n\n")[-2]
        error = json.loads(last.removeprefix(b"data: "))["error"]
        assert (error["type"], error["code"]) == ("request_aborted", "aborted")
        assert api.engine.calls[0].is_aborted
        if by != "all":
            assert not streams[1].task.done()
            streams[1].disconnect()
        await streams[1].task
        assert len(api.state.in_flight) == 0

    api.session(scenario)
    counted = 'request_success_total{finished_reason="abort",model_name="fake"} 2.0'
    assert counted in api.get("/metrics").text


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/embeddings"])
def test_an_aborted_request_without_a_stream_gets_a_status(path: str) -> None:
    api = endless()
    api.engine.first_step_s = 30.0

    async def scenario(client: httpx.AsyncClient) -> httpx.Response:
        bodies = {CHAT: {"messages": HI}, COMPLETIONS: {"prompt": "a"}}
        body = bodies.get(path, {"input": "a"})
        work = asyncio.create_task(client.post(path, json=body, headers={"X-Request-Id": "me"}))
        await until(lambda: api.engine.calls)
        assert (await client.post("/abort", json={"request_ids": ["me"]})).json()["aborted"] == 1
        return await work

    answer = api.session(scenario)
    assert answer.status_code == 409
    assert error_of(answer)["code"] == "aborted"
    assert api.engine.calls[0].is_aborted


@pytest.mark.parametrize(
    "body", [{}, {"request_ids": []}, {"request_ids": ["a"], "all": True}, {"all": False}]
)
def test_an_abort_of_nothing_is_refused(body: dict[str, Any]) -> None:
    answer = Api().post("/abort", body)
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "request_ids"


def test_reset_prefix_cache_reaches_the_engine() -> None:
    api = Api()
    assert api.post("/reset_prefix_cache", None).json() == {"status": "ok"}
    assert api.engine.num_resets == 1
    api.engine.dead = True
    assert api.post("/reset_prefix_cache", None).status_code == 503


def test_administration_wants_the_key() -> None:
    api = Api(config=ServeConfig(api_key="k"))
    for path, body in (("/abort", {"all": True}), ("/reset_prefix_cache", None)):
        assert api.post(path, body).status_code == 401
        assert api.post(path, body, headers={"authorization": "Bearer k"}).status_code == 200


def test_render_shows_what_a_chat_would_read_and_runs_nothing() -> None:
    api = Api()
    answer = api.post(CHAT + "/render", {"messages": HI, "max_tokens": 3, "temperature": 0})
    assert answer.json() == {
        "prompt": "user: hi\nassistant:",
        "prompt_token_ids": list(b"user: hi\nassistant:"),
        "count": 19,
        "max_model_len": 512,
    }
    assert not api.engine.calls
    api.chat(max_tokens=3, temperature=0)
    assert api.engine.calls[0].prompt_token_ids == answer.json()["prompt_token_ids"]
    refused = api.post(CHAT + "/render", {"messages": [], "max_tokens": 3})
    assert error_of(refused)["param"] == "messages"


def test_a_request_leaves_one_line_with_its_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stoker.access")
    api = Api(FakeEngine(FakeTokenizer(), cached_tokens=1))
    answer = api.post(
        COMPLETIONS, {"prompt": ["ab", "c"], "n": 2}, headers={"X-Request-Id": "mine"}
    )
    [line] = access_lines(caplog)
    assert line["id"] == "mine" and api.engine.calls[0].request_id == "mine"
    assert (line["method"], line["path"], line["status"]) == ("POST", COMPLETIONS, 200)
    assert line["response_id"] == answer.json()["id"]
    usage = answer.json()["usage"]
    assert line["prompt_tokens"] == usage["prompt_tokens"]
    assert line["completion_tokens"] == usage["completion_tokens"]
    assert line["cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
    assert line["finish_reasons"] == ["stop"] * 4
    assert line["seconds"] >= line["first_token_seconds"] >= 0


def test_what_goes_wrong_is_in_the_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stoker.access")
    api = Api()
    api.chat(temperature=9)
    api.get("/no%ffwhere")
    api.engine.failure = RuntimeError("bug")
    api.chat(stream=True)
    api.engine.dead = True
    api.get("/health")
    lines = access_lines(caplog)
    assert [line["status"] for line in lines] == [400, 404, 200, 503]
    assert [line["error"] for line in lines] == [
        "invalid_request_error",
        "not_found_error",
        "internal_error",
        "engine_dead",
    ]
    assert lines[2]["finish_reasons"] == ["error"]


def test_a_client_that_leaves_is_logged_as_gone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stoker.access")
    api = endless()

    async def scenario(client: httpx.AsyncClient) -> None:
        call = RawCall(api.app, CHAT, {"messages": HI})
        await until(lambda: api.engine.calls)
        call.disconnect()
        await call.task

    api.session(scenario)
    [line] = access_lines(caplog)
    assert (line["status"], line["finish_reasons"]) == (499, ["abort"])


def test_probes_that_go_well_leave_no_line_and_the_log_can_be_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "stoker.access")
    for path in ("/health", "/ready", "/metrics"):
        assert Api().get(path).status_code == 200
    Api(config=ServeConfig(access_log=False)).chat()
    assert access_lines(caplog) == []


def test_an_unexpected_error_has_its_id_and_line_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stoker.access")
    api = Api()
    api.template.render_to_ids = None  # type: ignore[union-attr,method-assign,assignment]
    answer = api.chat()
    assert answer.status_code == 500
    [line] = access_lines(caplog)
    assert (line["status"], line["id"]) == (500, answer.headers["x-request-id"])
