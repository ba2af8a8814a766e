"""POST /v1/chat/completions: the shapes of answers, streamed and whole."""

from __future__ import annotations

from stoker.core.model import GenerationDefaults
from tests.support.api_app import HI, Api, chunks, error_of
from tests.support.fake_engine import FakeEngine, FakeTokenizer

HELLO = ((72,), (101, 108), (108, 111))


def api(**engine: object) -> Api:
    return Api(FakeEngine(FakeTokenizer(), **{"script": HELLO, **engine}))  # type: ignore[arg-type]


def test_whole_answer() -> None:
    body = api(cached_tokens=3).chat(model="fake").json()
    assert body["id"].startswith("chatcmpl-")
    assert body["object"] == "chat.completion"
    assert body["model"] == "fake"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]
    prompt_tokens = len("user: hi\nassistant:")
    assert body["usage"] == {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": 6,
        "total_tokens": prompt_tokens + 6,
        "prompt_tokens_details": {"cached_tokens": 3},
    }


def test_stream_opens_with_the_role_and_ends_with_the_finish_reason() -> None:
    parts = chunks(api().chat(stream=True))
    assert all(part["object"] == "chat.completion.chunk" for part in parts)
    assert len({part["id"] for part in parts}) == 1
    choices = [part["choices"][0] for part in parts]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert all("role" not in choice["delta"] for choice in choices[1:])
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello"
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert not any("usage" in part for part in parts)


def test_usage_chunk_only_when_asked() -> None:
    asked = chunks(api().chat(stream=True, stream_options={"include_usage": True}))
    assert [part["usage"] is None for part in asked] == [True] * (len(asked) - 1) + [False]
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    for options in ({}, {"include_usage": False}, None):
        assert not any(
            "usage" in part for part in chunks(api().chat(stream=True, stream_options=options))
        )


def test_prompt_counts_once_for_n_choices() -> None:
    one = api().chat().json()["usage"]
    three = api().chat(n=3).json()["usage"]
    assert three["prompt_tokens"] == one["prompt_tokens"]
    assert three["completion_tokens"] == 3 * one["completion_tokens"]


def test_logprobs_follow_the_tokens() -> None:
    body = api().chat(logprobs=True, top_logprobs=2).json()
    content = body["choices"][0]["logprobs"]["content"]
    assert [item["token"] for item in content] == ["H", "e", "l", "l", "o", "<eos>"]
    assert content[0]["bytes"] == [72]
    assert all(len(item["top_logprobs"]) == 2 for item in content)
    assert [item["token"] for item in content[0]["top_logprobs"]] == ["H", "I"]


def test_token_ids_on_request() -> None:
    body = api().chat(return_token_ids=True).json()
    assert body["prompt_token_ids"] == list(b"user: hi\nassistant:")
    assert body["choices"][0]["token_ids"] == [*b"Hello", 256]
    parts = chunks(api().chat(return_token_ids=True, stream=True))
    assert [("prompt_token_ids" in part) for part in parts] == [True] + [False] * (len(parts) - 1)


def test_length_is_told_from_stop() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        choice = api().chat(**{name: 2}).json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("He", "length")


def test_stop_token_is_the_stop_reason_and_no_text() -> None:
    choice = api().chat(stop_token_ids=[111]).json()["choices"][0]
    assert choice["message"]["content"] == "Hell"
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", 111)


def test_defaults_of_the_checkpoint_hold_until_a_field_is_given() -> None:
    server = api()
    server.defaults = GenerationDefaults(temperature=0.3, top_k=7, top_p=0.8, min_p=0.1)
    server.__post_init__()
    server.chat()
    server.chat(temperature=0, top_k=-1, top_p=None)
    first, second = (call.params for call in server.engine.calls)
    assert (first.temperature, first.top_k, first.top_p, first.min_p) == (0.3, 7, 0.8, 0.1)
    assert (second.temperature, second.top_k, second.top_p) == (0.0, 0, 0.8)


def test_a_missing_seed_is_drawn_anew_and_a_given_one_kept() -> None:
    server = api()
    server.chat()
    server.chat()
    server.chat(seed=-5)
    seeds = [call.params.seed for call in server.engine.calls]
    assert seeds[0] != seeds[1]
    assert all(0 <= seed < 2**63 for seed in seeds[:2])
    assert seeds[2] == -5


def test_every_sampling_field_reaches_the_engine() -> None:
    server = api()
    fields = {
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.5,
        "min_p": 0.25,
        "repetition_penalty": 1.5,
        "presence_penalty": -1.0,
        "frequency_penalty": 1,
        "seed": 9,
        "n": 2,
        "min_tokens": 1,
        "include_stop_str_in_output": True,
        "ignore_eos": True,
        "skip_special_tokens": False,
    }
    answer = server.chat(
        **fields,
        stop="x",
        stop_token_ids=[1],
        logit_bias={"65": 2.5},
        priority=-3,
        cache_salt="s",
        max_tokens=4,
    )
    assert answer.status_code == 200, answer.text
    call = server.engine.calls[0]
    assert {name: getattr(call.params, name) for name in fields} == fields
    assert (call.params.stop, call.params.stop_token_ids) == (("x",), (1,))
    assert call.params.logit_bias == {65: 2.5}
    assert (call.priority, call.cache_salt, call.params.max_tokens) == (-3, "s", 4)


def test_messages_reach_the_template_in_its_own_terms() -> None:
    server = api()
    answer = server.chat(
        messages=[
            {"role": "developer", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": None},
            {"role": "user", "content": "c", "name": "Ann"},
        ],
        add_generation_prompt=False,
        chat_template_kwargs={"enable_thinking": False},
    )
    assert answer.status_code == 200, answer.text
    assert server.template is not None
    assert server.template.rendered == [
        (
            [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]},
                {"role": "assistant", "content": ""},
                {"role": "user", "content": "c", "name": "Ann"},
            ],
            False,
            {"enable_thinking": False},
        )
    ]


def test_without_a_template_chat_is_refused_by_name() -> None:
    error = error_of(Api(template=None).chat())
    assert (error["param"], error["code"]) == ("messages", "no_chat_template")


def test_a_template_may_refuse() -> None:
    answer = api().chat(messages=[*HI, {"role": "user", "content": "refuse"}])
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "messages"
