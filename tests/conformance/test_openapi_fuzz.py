"""Fuzz: whatever comes in, never a 500, always OpenAI's error shape, and the next request works."""

from __future__ import annotations

import json
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.api_app import CHAT, COMPLETIONS, HI, Api, error_of
from tests.support.fake_engine import FakeEngine, FakeTokenizer

API = Api(FakeEngine(FakeTokenizer(), ((72, 105),)))
PATHS = (CHAT, COMPLETIONS, "/tokenize", "/detokenize")

schema = schemathesis.openapi.from_asgi("/openapi.json", API.app)

FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@schema.parametrize()
@FUZZ
def test_the_server_is_what_its_openapi_document_says(case: schemathesis.Case) -> None:
    case.call_and_validate(
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
            negative_data_rejection,
        ]
    )


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(), max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)
FIELDS = sorted(
    {name for model in ("ChatRequest", "CompletionRequest", "TokenizeRequest") for name in
     schema.raw_schema["components"]["schemas"][model]["properties"]}
)  # fmt: skip


def _check(path: str, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = API.request("POST", path, content=content, headers=headers)
    if answer.status_code != 200:
        assert 400 <= answer.status_code < 500, (answer.status_code, content)
        error_of(answer)
    assert API.chat().json()["choices"][0]["message"]["content"] == "Hi"


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PATHS), st.binary(max_size=200))
def test_any_bytes(path: str, content: bytes) -> None:
    _check(path, content)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(PATHS), st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4))
def test_any_values_in_known_fields(path: str, fields: dict[str, Any]) -> None:
    base: dict[str, Any] = {
        CHAT: {"messages": HI},
        COMPLETIONS: {"prompt": "hi"},
        "/tokenize": {"prompt": "hi"},
        "/detokenize": {"tokens": [72]},
    }[path]
    _check(path, json.dumps(base | fields).encode())
