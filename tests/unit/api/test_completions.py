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


@pytest.mark.parametrize("stream", [False, True])
def test_echo_puts_prompt_and_answer_into_one_text(stream: bool) -> None:
    answer = Api().complete(prompt=["ab", "c"], echo=True, n=2, logprobs=0, stream=stream)
    texts, tokens, offsets = {}, {}, {}
    for part in chunks(answer) if stream else [answer.json()]:
        for choice in part["choices"]:
            index, logprobs = choice["index"], choice["logprobs"]
            texts[index] = texts.get(index, "") + choice["text"]
            tokens[index] = tokens.get(index, []) + logprobs["tokens"]
            offsets[index] = offsets.get(index, []) + logprobs["text_offset"]
    assert texts == {0: "abHi", 1: "abHi", 2: "cHi", 3: "cHi"}
    assert tokens[1] == ["<bos>", "a", "b", "H", "i", "<eos>"]
    assert offsets[1] == [0, 0, 1, 2, 3, 4]


def test_echo_without_logprobs_asks_for_none() -> None:
    api = Api()
    choice = api.complete(echo=True).json()["choices"][0]
    assert (choice["text"], choice["logprobs"]) == ("hiHi", None)
    assert api.engine.calls[0].params.prompt_logprobs is None


@pytest.mark.parametrize("stream", [False, True])
def test_prompt_logprobs_are_spelled_as_vllm_spells_them(stream: bool) -> None:
    for api, answer in (
        (one := Api(), one.complete(prompt=[97, 98, 99], prompt_logprobs=2, stream=stream)),
        (two := Api(), two.chat(messages=[{"role": "user", "content": "x"}], prompt_logprobs=2)),
    ):
        is_chat = "chat" in answer.text
        part = chunks(answer)[0] if stream and not is_chat else answer.json()
        holder = part if is_chat else part["choices"][0]
        [call] = api.engine.calls
        first, *rest = holder["prompt_logprobs"]
        assert first is None
        assert len(rest) == len(call.prompt_token_ids) - 1
        assert all(next(iter(position)) == str(token) for position, token in
                   zip(rest, call.prompt_token_ids[1:], strict=True))  # fmt: skip
        if not is_chat:
            assert rest[0] == {
                "98": {"logprob": 0.0, "rank": 1, "decoded_token": "b"},
                "99": {"logprob": -0.5, "rank": 2, "decoded_token": "c"},
            }


def test_echo_and_prompt_logprobs_each_show_as_many_as_they_asked_for() -> None:
    api = Api()
    body = api.complete(prompt=[97, 98], echo=True, logprobs=1, prompt_logprobs=3).json()
    assert api.engine.calls[0].params.prompt_logprobs == 3
    choice = body["choices"][0]
    assert len(choice["prompt_logprobs"][1]) == 3
    assert len(choice["logprobs"]["top_logprobs"][1]) == 1


@pytest.mark.parametrize(
    ("prompt", "most", "kept"),
    [
        ("abcdef", 3, [257, 101, 102]),  # the BOS of a text stays
        ("abcdef", 7, [257, *b"abcdef"]),
        ("abcdef", 1, [102]),
        ([1, 2, 3], 2, [2, 3]),
        ([1, 2, 3], 9, [1, 2, 3]),
        ([5] * 600, -1, [5] * (512 - 16)),
    ],
)
def test_truncation_keeps_the_end(prompt: Any, most: int, kept: list[int]) -> None:
    api = Api()
    answer = api.complete(prompt=prompt, truncate_prompt_tokens=most, echo=True).json()
    assert api.engine.calls[0].prompt_token_ids == kept
    assert answer["usage"]["prompt_tokens"] == len(kept)
    shown = bytes(i for i in kept if i < 256).decode()
    assert answer["choices"][0]["text"] == f"{shown}Hi"
    assert error_of(api.complete(truncate_prompt_tokens=0))["param"] == "truncate_prompt_tokens"


def test_tokens_as_ids() -> None:
    fields = {"logprobs": 1, "return_tokens_as_token_ids": True}
    logprobs = Api().complete(**fields).json()["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:72", "token_id:105", "token_id:256"]
    assert list(logprobs["top_logprobs"][0]) == ["token_id:72"]
    assert logprobs["text_offset"] == [0, 1, 2]
    fields = {"logprobs": True, "return_tokens_as_token_ids": True}
    content = Api().chat(**fields).json()["choices"][0]["logprobs"]["content"]
    assert content[0]["token"] == "token_id:72" and content[0]["bytes"] == [72]


def test_bad_words_reach_the_engine_as_tokens() -> None:
    api = Api()
    assert api.complete(bad_words=["ab", " c"], allowed_token_ids=[72, 105]).status_code == 200
    params = api.engine.calls[0].params
    assert params.bad_words == ((97, 98), (32, 97, 98), (99,), (32, 99))
    assert params.allowed_token_ids == (72, 105)
    for field, value in (
        ("bad_words", [" "]),
        ("bad_words", "ab"),
        ("bad_words", ["a"] * 1025),
        ("allowed_token_ids", []),
        ("allowed_token_ids", [258]),
        ("allowed_token_ids", "a"),
    ):
        answer = api.complete(**{field: value})
        assert answer.status_code == 400
        assert error_of(answer)["param"] == field
