"""POST /v1/embeddings; the fake engine's pooled vector is always (3, 4, 12)."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
from typing import Any

import pytest

from stoker.core.config import ServeConfig
from stoker.core.errors import ExceedsCapacity, Overloaded
from tests.support.api_app import Api, RawCall, error_of
from tests.support.fake_engine import FakeEngine, FakeTokenizer

EMBEDDINGS = "/v1/embeddings"


def embed(api: Api, **fields: Any) -> Any:
    return api.post(EMBEDDINGS, {"input": "hi"} | fields)


def vector(api: Api, **fields: Any) -> list[float]:
    numbers: list[float] = embed(api, **fields).json()["data"][0]["embedding"]
    return numbers


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ("ab", [[257, 97, 98]]),
        (["ab", "c"], [[257, 97, 98], [257, 99]]),
        ([5, 6], [[5, 6]]),
        ([[5], [6, 7]], [[5], [6, 7]]),
    ],
)
def test_inputs_of_every_kind(given: Any, ids: list[list[int]]) -> None:
    api = Api(FakeEngine(FakeTokenizer(), cached_tokens=2))
    body = embed(api, input=given).json()
    assert [call.prompt_token_ids for call in api.engine.calls] == ids
    assert {call.params.max_tokens for call in api.engine.calls} == {0}
    assert [item["index"] for item in body["data"]] == list(range(len(ids)))
    assert body["usage"]["prompt_tokens"] == body["usage"]["total_tokens"] == sum(map(len, ids))
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 2 * len(ids)
    assert (body["object"], body["model"]) == ("list", "fake")


def test_vectors_have_length_one_unless_asked_otherwise() -> None:
    api = Api()
    assert vector(api) == pytest.approx([3 / 13, 4 / 13, 12 / 13], abs=1e-7)
    assert vector(api, normalize=False) == [3.0, 4.0, 12.0]
    assert vector(api, dimensions=2) == pytest.approx([0.6, 0.8], abs=1e-7)
    assert math.hypot(*vector(api)) == pytest.approx(1, abs=1e-7)


def test_base64_holds_the_same_float32() -> None:
    api = Api()
    text = embed(api, encoding_format="base64").json()["data"][0]["embedding"]
    assert list(struct.unpack("<3f", base64.b64decode(text))) == vector(api)


def test_pooling_is_the_requests_or_the_servers() -> None:
    api = Api(config=ServeConfig(pooling="mean"))
    for fields in ({}, {"pooling": "last"}, {"priority": -3, "cache_salt": "s"}):
        assert embed(api, **fields).status_code == 200
    assert [call.pooling for call in api.engine.calls] == ["mean", "last", "mean"]
    assert (api.engine.calls[2].priority, api.engine.calls[2].cache_salt) == (-3, "s")


def test_truncation_and_the_whole_context() -> None:
    api = Api()
    assert embed(api, input=[5] * 512).status_code == 200  # nothing need be left for an answer
    error = error_of(embed(api, input=[5] * 513))
    assert (error["code"], error["param"]) == ("context_length_exceeded", "input")
    assert embed(api, input="x" * 600, truncate_prompt_tokens=-1).status_code == 200
    assert api.engine.calls[-1].prompt_token_ids == [257, *b"x" * 511]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", []),
        ("input", ""),  # of token ids, where the tokenizer adds none
        ("input", None),
        ("input", [[]]),
        ("input", [1.5]),
        ("input", ["a"] * 1025),
        ("input", [258]),
        ("dimensions", 0),
        ("dimensions", 4),
        ("encoding_format", "hex"),
        ("pooling", "max"),
        ("truncate_prompt_tokens", 0),
        ("messages", []),
        ("stream", True),
    ],
)
def test_bad_fields_are_named(field: str, value: Any) -> None:
    tokenizer = FakeTokenizer()
    tokenizer.encode = lambda text, add_special_tokens: list(text.encode())  # type: ignore[method-assign]
    api = Api(FakeEngine(tokenizer))
    answer = embed(api, **{field: value})
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["param"] == field
    assert not api.engine.calls


def test_refusals_of_the_engine_keep_their_status() -> None:
    answer = embed(Api(FakeEngine(FakeTokenizer(), refusal=Overloaded("the queue is full"))))
    assert (answer.status_code, error_of(answer)["code"]) == (503, "queue_full")
    refusal = ExceedsCapacity("too large", param="prompt")
    answer = embed(Api(FakeEngine(FakeTokenizer(), refusal=refusal)))
    assert (answer.status_code, error_of(answer)["param"]) == (400, "input")


def test_a_client_that_leaves_aborts_all_of_its_inputs() -> None:
    async def scenario() -> None:
        api = Api(FakeEngine(FakeTokenizer(), first_step_s=60))
        call = RawCall(api.app, EMBEDDINGS, {"input": ["a", "b"]})
        while len(api.engine.calls) < 2:
            await asyncio.sleep(0)
        call.disconnect()
        await call.task
        assert [each.is_aborted for each in api.engine.calls] == [True, True]
        assert len(api.state.in_flight) == 0

    asyncio.run(scenario())
