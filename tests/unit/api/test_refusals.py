"""Bad requests: the right status, OpenAI's error shape, and the name of the field at fault."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.api.unsupported import (
    CHAT_UNSUPPORTED,
    COMPLETION_UNSUPPORTED,
    EMBEDDING_UNSUPPORTED,
    NO_EFFECT,
)
from stoker.core.errors import EngineDead, ExceedsCapacity, Overloaded, ReportedError
from tests.support.api_app import CHAT, COMPLETIONS, HI, Api, chunks, error_of
from tests.support.fake_engine import FakeEngine, FakeTokenizer

API = Api()
"""One app for all that are refused: FastAPI takes longer to build than to answer."""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 2.5),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 0),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", 1.1),
        ("n", 0),
        ("n", 129),
        ("n", True),
        ("max_tokens", 0),
        ("max_completion_tokens", -1),
        ("seed", 2**64),
        ("presence_penalty", 3),
        ("repetition_penalty", 0),
        ("logit_bias", {"x": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"1": None}),
        ("logit_bias", {"99999": 1}),
        ("logit_bias", [1]),
        ("stop", ""),
        ("stop", ["a", 1]),
        ("stop", ["s"] * 17),
        ("stop", {}),
        ("stop_token_ids", [258]),
        ("stop_token_ids", "1"),
        ("stop_token_ids", [True]),
        ("top_logprobs", 21),
        ("top_logprobs", 1),  # without logprobs
        ("logprobs", 1),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),  # without stream
        ("stream_options", 1),
        ("priority", 2**40),
        ("cache_salt", ""),
        ("min_tokens", -1),
        ("messages", []),
        ("messages", "hi"),
        ("chat_template_kwargs", []),
    ],
)
def test_chat_names_the_field(field: str, value: Any) -> None:
    answer = API.chat(**{field: value})
    assert answer.status_code == 400, answer.text
    error = error_of(answer)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == field
    assert field in error["message"]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "tool", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user", "content": "x", "colour": 1}, "messages[0].colour"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "messages"),
        ({"role": "user", "content": "\ud800"}, "messages[0].content"),
        ("hi", "messages[0]"),
    ],
)
def test_a_bad_message_is_named(message: Any, param: str) -> None:
    answer = API.chat(messages=[message])
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["param"] == param


def test_an_unknown_field_is_named() -> None:
    for answer in (API.chat(temprature=1), API.complete(temprature=1)):
        assert answer.status_code == 400
        error = error_of(answer)
        assert (error["param"], error["code"]) == ("temprature", "unknown_parameter")
    nested = API.chat(stream=True, stream_options={"continuous_usage_stats": True})
    assert error_of(nested)["param"] == "stream_options.continuous_usage_stats"


@pytest.mark.parametrize("name", sorted(CHAT_UNSUPPORTED))
def test_chat_refuses_what_it_would_have_to_ignore(name: str) -> None:
    _refuses_unless_idle(CHAT, {"messages": HI}, name, CHAT_UNSUPPORTED[name])


@pytest.mark.parametrize("name", sorted(COMPLETION_UNSUPPORTED))
def test_completions_refuse_what_they_would_have_to_ignore(name: str) -> None:
    _refuses_unless_idle(COMPLETIONS, {"prompt": "hi"}, name, COMPLETION_UNSUPPORTED[name])


@pytest.mark.parametrize("name", sorted(EMBEDDING_UNSUPPORTED))
def test_embeddings_refuse_what_they_would_have_to_ignore(name: str) -> None:
    _refuses_unless_idle("/v1/embeddings", {"input": "hi"}, name, EMBEDDING_UNSUPPORTED[name])


def test_a_refusal_says_why_where_there_is_a_way_or_a_reason() -> None:
    assert "n says how many" in error_of(API.complete(best_of=2))["message"]
    assert "do not fill a gap" in error_of(API.complete(suffix="x"))["message"]


def _refuses_unless_idle(path: str, body: dict[str, Any], name: str, idle: tuple[Any, ...]) -> None:
    answer = API.post(path, body | {name: {"some": "value"}})
    assert answer.status_code == 400
    error = error_of(answer)
    assert (error["param"], error["code"]) == (name, "unsupported_parameter")
    for value in (None, *idle):
        assert API.post(path, body | {name: value}).status_code == 200, (name, value)


def test_one_is_not_true() -> None:
    assert API.chat(store=0).status_code == 400


@pytest.mark.parametrize("name", sorted(NO_EFFECT))
def test_fields_without_effect_on_an_answer_are_taken(name: str) -> None:
    assert API.chat(**{name: "x"}).status_code == 200


def test_an_error_speaks_the_fields_that_the_client_used() -> None:
    error = error_of(API.chat(max_completion_tokens=2, min_tokens=3))
    assert error["param"] == "min_tokens"
    assert "max_completion_tokens is 2" in error["message"]
    error = error_of(API.chat(max_completion_tokens=2, max_tokens=3))
    assert error["param"] == "max_tokens"


def test_prompt_too_long_names_both_numbers() -> None:
    for param, answer in (
        ("messages", API.chat(messages=[{"role": "user", "content": "x" * 600}])),
        ("prompt", API.complete(prompt="x" * 511)),
    ):
        assert answer.status_code == 400
        error = error_of(answer)
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
        assert "512" in error["message"]


def test_one_token_below_the_context_is_enough() -> None:
    answer = API.complete(prompt=[65] * 511, max_tokens=10**6)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert answer.json()["usage"]["completion_tokens"] == 1


def test_a_foreign_token_id_is_refused() -> None:
    for prompt in ([-1], [258], [2**70]):
        answer = API.complete(prompt=prompt)
        assert answer.status_code == 400
        assert error_of(answer)["param"] == "prompt"


def test_another_model_is_not_found() -> None:
    for answer in (API.chat(model="gpt-4"), API.get("/v1/models/gpt-4")):
        assert answer.status_code == 404
        error = error_of(answer)
        assert (error["type"], error["code"]) == ("not_found_error", "model_not_found")


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_of_the_engine_keeps_its_status(stream: bool) -> None:
    for refusal, status in (
        (Overloaded("the queue is full"), 503),
        (EngineDead("the engine ended"), 503),
        # What the engine's own process refuses comes back as a report of the error.
        (ReportedError(ExceedsCapacity("too large", param="prompt").info), 400),
    ):
        answer = Api(FakeEngine(FakeTokenizer(), refusal=refusal)).chat(stream=stream)
        assert answer.status_code == status
        error = error_of(answer)
        assert error["code"] == refusal.code
        if status == 503:
            assert int(answer.headers["retry-after"]) > 0
        else:
            assert error["param"] == "messages"


def test_an_unexpected_exception_tells_nothing_of_the_inside() -> None:
    failure = RuntimeError("/secret/path broke")
    answer = Api(FakeEngine(FakeTokenizer(), failure=failure)).chat()
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert error_of(answer)["type"] == "server_error"
    assert API.chat().status_code == 200


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[1]", "application/json"),
        (b"nul", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"prompt": ' + b"9" * 5000 + b"}", "application/json"),
        (b'{"prompt": "\\ud800"}', "application/json"),
        (b'{"prompt": "hi", "temperature": NaN}', "application/json"),
        (b'{"prompt": "hi", "\\ud800": 1}', "application/json"),
        (b"prompt=hi", "application/x-www-form-urlencoded"),
    ],
)
def test_bodies_that_are_no_request(content: bytes, kind: str) -> None:
    answer = API.request("POST", COMPLETIONS, content=content, headers={"content-type": kind})
    assert answer.status_code == 400, answer.text
    error_of(answer)
    assert API.complete().status_code == 200


def test_unknown_urls_and_methods_have_the_same_shape() -> None:
    assert error_of(API.get("/v2/nothing"))["type"] == "not_found_error"
    answer = API.get(CHAT)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    error_of(answer)


def test_streams_of_bad_requests_are_no_streams() -> None:
    answer = API.chat(stream=True, temperature=9)
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "temperature"
    assert chunks(API.chat(stream=True))
