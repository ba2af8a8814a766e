"""Upstream bugs in the shape of answers: logprobs, usage, n, lengths, echo, health, drain."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.core.config import ServeConfig
from tests.support.api_app import Api, chunks, error_of
from tests.support.fake_engine import Call, FakeEngine, FakeTokenizer


def test_a_step_of_several_tokens_keeps_logprobs_per_token() -> None:
    """Case 14: vllm #4795, sglang #39260, #5984: all tokens of a chunk showed the first's."""
    api = Api(FakeEngine(FakeTokenizer(), [[72, 101, 121]]))
    for answer in (api.chat(logprobs=True, top_logprobs=2).json(), _fold(api)):
        content = answer["choices"][0]["logprobs"]["content"]
        assert [item["token"] for item in content] == ["H", "e", "y", "<eos>"]
        for item in content:
            assert item["top_logprobs"][0]["token"] == item["token"]
            assert item["bytes"] == list(item["token"].encode())


def _fold(api: Api) -> dict[str, Any]:
    content = []
    for part in chunks(api.chat(logprobs=True, top_logprobs=2, stream=True)):
        content += (part["choices"][0]["logprobs"] or {"content": []})["content"]
    return {"choices": [{"logprobs": {"content": content}}]}


@pytest.mark.parametrize("top", [None, 0])
def test_no_top_logprobs_is_an_empty_list(top: int | None) -> None:
    """Case 14: vllm #4795: absent top_logprobs was an error."""
    answer = Api().chat(logprobs=True, top_logprobs=top).json()
    assert [t["top_logprobs"] for t in answer["choices"][0]["logprobs"]["content"]] == [[], [], []]


def test_minus_infinity_has_a_finite_floor() -> None:
    """Case 14: vllm #10234: -inf made a 500, "not JSON compliant"."""
    answer = Api().chat(logprobs=True, top_logprobs=20)
    assert answer.status_code == 200
    first = answer.json()["choices"][0]["logprobs"]["content"][0]
    assert first["top_logprobs"][-1]["logprob"] == -9999.0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["hé", [*"hé".encode()]])
def test_echo_without_an_answer_is_the_prompt_with_its_logprobs(
    prompt: str | list[int], stream: bool
) -> None:
    """Case 17: vllm #6521, #9336, #27477, #5334: echo with max_tokens=0 crashed, the first token
    of the prompt was missing, offsets were wrong."""
    api = Api()
    answer = api.complete(prompt=prompt, echo=True, max_tokens=0, logprobs=1, stream=stream)
    assert answer.status_code == 200
    parts = chunks(answer) if stream else [answer.json()]
    choices = [part["choices"][0] for part in parts]
    assert "".join(choice["text"] for choice in choices) == "hé"
    assert choices[-1]["finish_reason"] == "length"
    logprobs = choices[0]["logprobs"]
    bos = ["<bos>"] * isinstance(prompt, str)
    assert logprobs["tokens"] == [*bos, "h", "\ufffd", "\ufffd"]
    assert logprobs["text_offset"] == [*([0] * len(bos)), 0, 1, 1]  # BOS is not in the text
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    assert None not in logprobs["token_logprobs"][1:] + logprobs["top_logprobs"][1:]
    assert len(logprobs["token_logprobs"]) == len(logprobs["top_logprobs"]) == 3 + len(bos)
    assert sum(part["choices"][0]["logprobs"] is not None for part in parts) == 1
    [call] = api.engine.calls
    assert (call.params.max_tokens, call.params.prompt_logprobs) == (0, 1)
    if not stream:
        assert answer.json()["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "fields",
    [{}, {"stop": "i"}, {"stop_token_ids": [105]}, {"max_tokens": 1}, {"ignore_eos": True}],
)
def test_usage_is_the_same_in_both_modes(fields: dict[str, Any], n: int) -> None:
    """Case 18: vllm #7262, #6371, #8625, PR 36379: usage differed, or came unasked."""
    api = Api(FakeEngine(FakeTokenizer(), cached_tokens=7))
    whole = api.chat(n=n, **fields).json()["usage"]
    options = {"include_usage": True}
    parts = chunks(api.chat(n=n, stream=True, stream_options=options, **fields))
    assert parts[-1] == parts[-1] | {"choices": [], "usage": whole}
    assert [part["usage"] for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert whole["prompt_tokens_details"]["cached_tokens"] == 7
    assert whole["total_tokens"] == whole["prompt_tokens"] + whole["completion_tokens"]


@pytest.mark.parametrize(("length", "status"), [(511, 200), (512, 400), (513, 400)])
def test_lengths_around_the_limit(length: int, status: int) -> None:
    """Case 19: vllm #765, #16445, #39734, sglang #3910: a prompt at the limit hung or crashed."""
    api = Api()
    answer = api.complete(prompt=[72] * length, max_tokens=100)
    assert answer.status_code == status
    if status == 400:
        error = error_of(answer)
        assert error["code"] == "context_length_exceeded"
        assert str(length) in error["message"]
        assert "512" in error["message"]
    assert api.complete().status_code == 200


def test_health_fails_when_the_engine_is_dead() -> None:
    """Case 27: vllm #39863, PR 36451: /health said 200 for a dead core."""
    api = Api()
    api.engine.dead = True
    assert [api.get(path).status_code for path in ("/health", "/ready")] == [503, 503]


def test_a_draining_server_says_when_to_come_back() -> None:
    """Case 28: vllm #24885: requests during shutdown hung instead of being refused."""
    api = Api(config=ServeConfig(api_key=None))
    api.state.is_draining = True
    for answer in (api.chat(), api.chat(stream=True), api.complete(), api.get("/ready")):
        assert answer.status_code == 503
        assert error_of(answer)["code"] == "draining"
        assert int(answer.headers["retry-after"]) > 0
    assert not api.engine.calls


def test_every_choice_comes_with_its_own_index_and_sample() -> None:
    """Case 33: vllm #12584, #14280, PR 52399: choices got lost or were equal under one seed."""

    def script(call: Call, choice: int) -> list[list[int]]:
        return [[65 + choice]] * (choice + 1)

    api = Api(FakeEngine(FakeTokenizer(), script))
    expected = {index: chr(65 + index) * (index + 1) for index in range(4)}
    whole = api.chat(n=4, seed=1).json()["choices"]
    assert {choice["index"]: choice["message"]["content"] for choice in whole} == expected
    streamed: dict[int, str] = {}
    ends = []
    for part in chunks(api.chat(n=4, seed=1, stream=True)):
        [choice] = part["choices"]
        text = choice["delta"].get("content", "")
        streamed[choice["index"]] = streamed.get(choice["index"], "") + text
        ends += [choice["index"]] * (choice["finish_reason"] is not None)
    assert streamed == expected
    assert sorted(ends) == [0, 1, 2, 3]
