"""Models, health, metrics, tokens, keys, CORS, request ids and the body limit."""

from __future__ import annotations

import pytest

from stoker.core.config import ServeConfig
from stoker.engine.wire import Stats
from tests.support.api_app import COMPLETIONS, HI, Api, error_of
from tests.support.fake_engine import FakeEngine, FakeTokenizer


def test_models() -> None:
    api = Api(config=ServeConfig(served_model_name="org/name"))
    [model] = api.get("/v1/models").json()["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("org/name", "model", 512)
    assert api.get("/v1/models/org/name").json() == model
    assert api.chat(model="org/name").json()["model"] == "org/name"


def test_health_follows_the_engine_and_ready_also_the_drain() -> None:
    api = Api()
    assert (api.get("/health").status_code, api.get("/ready").status_code) == (200, 200)
    api.state.is_draining = True
    assert (api.get("/health").status_code, api.get("/ready").status_code) == (200, 503)
    api.engine.dead = True
    answer = api.get("/health")
    assert answer.status_code == 503
    assert error_of(answer)["code"] == "engine_dead"


def test_tokenize_and_back() -> None:
    api = Api()
    answer = api.post("/tokenize", {"prompt": "hé", "return_token_strs": True}).json()
    assert answer == {
        "tokens": [257, 104, 195, 169],
        "count": 4,
        "max_model_len": 512,
        "token_strs": ["<bos>", "h", "\ufffd", "\ufffd"],
    }
    bare = api.post("/tokenize", {"prompt": "hé", "add_special_tokens": False}).json()
    assert bare["tokens"] == [104, 195, 169]
    assert api.post("/detokenize", {"tokens": bare["tokens"]}).json() == {"prompt": "hé"}
    chat = api.post("/tokenize", {"messages": HI, "add_generation_prompt": False}).json()
    assert bytes(chat["tokens"]) == b"user: hi"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": HI}, "prompt"),
        ("/tokenize", {"prompt": "a", "x": 1}, "x"),
        ("/tokenize", {"prompt": "\ud800"}, "prompt"),
        ("/detokenize", {"tokens": [258]}, "tokens"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": None}, "tokens"),
    ],
)
def test_tokenize_refusals(path: str, body: dict[str, object], param: str) -> None:
    answer = Api().post(path, body)
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["param"] == param


def test_metrics_have_the_names_that_dashboards_read() -> None:
    stats = Stats(num_running=2, num_waiting=3, pages_free=1, pages_held=2, pages_cached=1)
    api = Api(FakeEngine(FakeTokenizer(), stats=stats, cached_tokens=5))
    api.chat()
    api.chat(max_tokens=1)
    page = api.get("/metrics").text
    for line in (
        'stoker:num_requests_running{model_name="fake"} 2.0',
        'stoker:num_requests_waiting{model_name="fake"} 3.0',
        'stoker:kv_cache_usage_perc{model_name="fake"} 0.5',
        'stoker:request_success_total{finished_reason="stop",model_name="fake"} 1.0',
        'stoker:request_success_total{finished_reason="length",model_name="fake"} 1.0',
        'stoker:request_success_total{finished_reason="abort",model_name="fake"} 0.0',
        'stoker:prompt_tokens_cached_total{model_name="fake"} 10.0',
        'stoker:time_to_first_token_seconds_count{model_name="fake"} 2.0',
        'stoker:e2e_request_latency_seconds_count{model_name="fake"} 2.0',
        'stoker:request_generation_tokens_sum{model_name="fake"} 4.0',
        'stoker:inter_token_latency_seconds_count{model_name="fake"} 2.0',
        'stoker:num_preemptions_total{model_name="fake"} 0.0',
        'stoker:prefix_cache_hits_total{model_name="fake"} 0.0',
    ):
        assert line in page, line


def test_two_apps_count_apart() -> None:
    Api().chat()
    page = Api().get("/metrics").text
    assert 'stoker:request_success_total{finished_reason="stop",model_name="fake"} 0.0' in page


def test_the_key_guards_all_that_costs_work() -> None:
    api = Api(config=ServeConfig(api_key="sécret"))
    good = {"Authorization": "Bearer sécret".encode()}
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "sécret".encode()}):
        answer = api.get("/v1/models", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        error = error_of(answer)
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert api.get("/v1/models", headers=good).status_code == 200
    assert api.get("/health").status_code == 200
    for path in ("/tokenize", "/detokenize"):
        assert api.post(path, {"prompt": "a", "tokens": [1]}).status_code == 401
    assert api.post("/tokenize", {"prompt": "a"}, headers=good).status_code == 200
    wrong_body = api.request("POST", COMPLETIONS, content=b"{", headers={"Authorization": "x"})
    assert wrong_body.status_code == 401


def test_cors_only_for_configured_origins() -> None:
    api = Api(config=ServeConfig(cors_origins=("http://a.test",), api_key="k"))
    ask = {"Origin": "http://a.test", "Access-Control-Request-Method": "POST"}
    preflight = api.request("OPTIONS", COMPLETIONS, headers=ask)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "http://a.test"
    refused = api.get("/v1/models", headers={"Origin": "http://a.test"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "http://a.test"
    other = api.get("/health", headers={"Origin": "http://b.test"})
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-origin" not in Api().get("/health", headers=ask).headers


def test_request_id_is_echoed_or_made() -> None:
    api = Api()
    assert api.get("/health", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = [api.get("/health").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    odd = api.get("/health", headers={"X-Request-Id": "a b"}).headers["x-request-id"]
    assert odd.startswith("req-")
    assert api.get("/nothing").headers["x-request-id"]


def test_the_same_request_id_twice_is_two_requests() -> None:
    """Bug case 26: vllm #10583, #15041. The client's id names nothing inside."""
    api = Api()
    headers = {"X-Request-Id": "same"}
    ids = {api.post(COMPLETIONS, {"prompt": "a"}, headers=headers).json()["id"] for _ in range(2)}
    assert len(ids) == 2


def test_a_body_over_the_limit_is_refused_declared_or_not() -> None:
    api = Api(config=ServeConfig(max_body_mib=1))
    big = b'{"prompt": "' + b"x" * 2**20 + b'"}'

    async def pieces():  # type: ignore[no-untyped-def]
        for start in range(0, len(big), 2**16):
            yield big[start : start + 2**16]

    json_type = {"content-type": "application/json"}
    declared = api.request("POST", COMPLETIONS, content=big, headers=json_type)
    chunked = api.request("POST", COMPLETIONS, content=pieces(), headers=json_type)
    for answer in (declared, chunked):
        assert answer.status_code == 413
        assert error_of(answer)["code"] == "body_too_large"
    assert api.complete().status_code == 200
