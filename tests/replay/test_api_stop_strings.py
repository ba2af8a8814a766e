"""Bug cases 2, 3 and 4 at the HTTP face: stop strings, streamed and whole.

vllm #3574, #2577, #57052: the start of a stop string had been streamed before it was complete.
vllm #11089, #13087: text was held back that could not become a stop string any more.
vllm #21987, #15967: `min_tokens` did not hold for stop strings.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_app import Api, chunks
from tests.support.fake_engine import FakeEngine, FakeTokenizer


def api(*pieces: str) -> Api:
    tokenizer = FakeTokenizer(list(dict.fromkeys(pieces)))
    return Api(FakeEngine(tokenizer, [[token] for token in tokenizer.ids(*pieces)]))


def texts(server: Api, **fields: Any) -> tuple[str, list[str], Any]:
    """(whole text, streamed deltas, stop reason); both ways must agree on the reason."""
    whole = server.complete(**fields).json()["choices"][0]
    parts = [part["choices"][0] for part in chunks(server.complete(stream=True, **fields))]
    assert parts[-1]["finish_reason"] == whole["finish_reason"]
    assert parts[-1]["stop_reason"] == whole["stop_reason"]
    return whole["text"], [part["text"] for part in parts], whole["stop_reason"]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("DEF", "G", "HI", "J"), ""),
        (("ABC", "DEF", "G", "HI", "J", "K"), "ABC"),
        (("ABCDEFGHIJKL",), "ABC"),
        (("D", "E", "DEFGHI", "JK"), "DE"),
    ],
)
def test_nothing_of_a_stop_string_is_ever_sent(pieces: tuple[str, ...], expected: str) -> None:
    whole, deltas, reason = texts(api(*pieces), stop="DEFGHIJ")
    assert whole == "".join(deltas) == expected
    assert reason == "DEFGHIJ"


def test_text_that_cannot_become_a_stop_string_goes_out_at_once() -> None:
    _, deltas, _ = texts(api("I", " think", "</think>"), stop=["Observation:"])
    assert [delta for delta in deltas if delta] == ["I", " think", "</think>"]


def test_a_start_that_was_none_is_sent_after_all() -> None:
    whole, deltas, reason = texts(api("a", "Obs", "x"), stop=["Observation:"])
    assert whole == "".join(deltas) == "aObsx"
    assert reason is None


def test_min_tokens_holds_for_stop_strings() -> None:
    whole, _, reason = texts(api("\n", "a", "\n", "b"), stop="\n", min_tokens=2)
    assert (whole, reason) == ("\na", "\n")


def test_the_stop_string_stays_when_asked_for() -> None:
    whole, deltas, _ = texts(api("a", "EN", "D", "b"), stop="END", include_stop_str_in_output=True)
    assert whole == "".join(deltas) == "aEND"
