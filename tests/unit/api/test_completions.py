"""POST /v1/completions: prompts of every kind, choices in order, parallel logprob lists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_app import Api, chunks, error_of
from tests.support.fake_engine import Call, FakeEngine, FakeTokenizer


def echo_script(call: Call, choice: int) -> list[list[int]]:
    """Answers with the prompt's last byte and the choice's number."""
    return [[call.prompt_token_ids[-1]], [48 + choice]]


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("ab", [[257, 97, 98]]),
        (["ab", "c"], [[257, 97, 98], [257, 99]]),
        ([5, 6], [[5, 6]]),
        ([[5], [6, 7]], [[5], [6, 7]]),
    ],
)
def test_prompts_of_every_kind(prompt: Any, ids: list[list[int]]) -> None:
    api = Api()
    body = api.complete(prompt=prompt).json()
    assert [call.prompt_token_ids for call in api.engine.calls] == ids
    assert body["usage"]["prompt_tokens"] == sum(map(len, ids))
    assert [choice["text"] for choice in body["choices"]] == ["Hi"] * len(ids)


@pytest.mark.parametrize("stream", [False, True])
def test_choice_index_is_prompt_times_n_plus_choice(stream: bool) -> None:
    api = Api(FakeEngine(FakeTokenizer(), echo_script))
    answer = api.complete(prompt=["a", "b"], n=2, stream=stream)
    texts: dict[int, str] = {}
    for part in chunks(answer) if stream else [answer.json()]:
        for choice in part["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    assert texts == {0: "a0", 1: "a1", 2: "b0", 3: "b1"}


def test_default_is_sixteen_tokens() -> None:
    api = Api(FakeEngine(FakeTokenizer(), [[120]] * 40))
    choice = api.complete().json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("x" * 16, "length")


def test_logprob_lists_are_parallel_and_offsets_run_through_the_stream() -> None:
    tokenizer = FakeTokenizer(["ab", "cde"])
    engine = FakeEngine(tokenizer, [tokenizer.ids("ab", "cde"), [70]])
    whole = Api(engine).complete(logprobs=1).json()["choices"][0]["logprobs"]
    assert whole["tokens"] == ["ab", "cde", "F", "<eos>"]
    assert whole["text_offset"] == [0, 2, 5, 6]
    assert len(whole["token_logprobs"]) == len(whole["top_logprobs"]) == 4
    parts = chunks(Api(engine).complete(logprobs=1, stream=True))
    logprobs = [part["choices"][0]["logprobs"] for part in parts]
    assert [offset for part in logprobs for offset in part["text_offset"]] == whole["text_offset"]


def test_token_ids_stand_in_every_choice() -> None:
    choices = Api().complete(prompt=["a", "b"], return_token_ids=True).json()["choices"]
    assert [choice["prompt_token_ids"] for choice in choices] == [[257, 97], [257, 98]]
    assert [choice["token_ids"] for choice in choices] == [[72, 105, 256]] * 2


@pytest.mark.parametrize("prompt", [None, 1, [], [[]], ["a", 1], [True], [[True]], [1.5], {}])
def test_other_prompts_are_refused_by_name(prompt: Any) -> None:
    answer = Api().complete(prompt=prompt)
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "prompt"


def test_too_many_choices_of_all_prompts() -> None:
    answer = Api().complete(prompt=["a"] * 1000, n=2)
    assert answer.status_code == 400
    message = error_of(answer)["message"]
    assert "2000" in message
    assert "1024" in message


def test_more_choices_than_the_server_ever_takes_are_refused_for_good() -> None:
    answer = Api().complete(prompt=["a"] * 513, n=2)
    assert answer.status_code == 400
    error = error_of(answer)
    assert error["param"] == "n"
    assert "1026" in error["message"] and "1024" in error["message"]
