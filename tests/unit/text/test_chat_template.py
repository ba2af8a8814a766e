from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.core.errors import CheckpointError, InvalidRequest
from stoker.text import chat_template
from stoker.text.chat_template import ChatTemplate
from tests.support.vocabularies import byte_level

CHATML = (
    "{% for message in messages %}\n"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
DOUBLING = (
    "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ? n.s %}{% endfor %}"
)
USER = [{"role": "user", "content": "Hi"}]


def _render(source: str, messages: list[dict[str, Any]] = USER, **options: Any) -> str:
    return ChatTemplate(source, byte_level()).render(messages, **options)


def test_blocks_are_trimmed_as_templates_expect() -> None:
    assert _render(CHATML) == "<|user|>Hi\n<|assistant|>"
    assert _render(CHATML, add_generation_prompt=False) == "<|user|>Hi\n"


def test_messages_are_values_and_never_source() -> None:
    hostile = "{{ 7 * 7 }}{% raise %}{# #}"
    assert hostile in _render(CHATML, [{"role": "user", "content": hostile}])


def test_special_tokens_variables_and_helpers() -> None:
    source = (
        "{{ bos_token }}{{ eos_token }} {{ tools | tojson }} {{ mood }}"
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        "{% generation %}{{ messages[0].content }}{% endgeneration %}"
    )
    text = _render(source, tools=[{"name": "ü<"}], variables={"mood": "calm"})
    assert text == '<|bos|><|eos|> [{"name": "ü<"}] calm01Hi'


def test_strftime_now_gives_a_date() -> None:
    assert _render("{{ strftime_now('%Y') }}").startswith("2")


def test_parts_are_joined_for_a_template_that_wants_strings() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert "<|user|>a\nb" in _render(CHATML, [{"role": "user", "content": parts}])
    printed = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert _render(printed, [{"role": "user", "content": parts}]) == "a\nb"


def test_a_template_that_reads_parts_gets_them() -> None:
    either = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}"
    )
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert _render(either, [{"role": "user", "content": parts}]) == "ab"
    only_parts = (
        "{% for m in messages %}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endfor %}"
    )
    assert _render(only_parts, USER) == "Hi"


@pytest.mark.parametrize(
    "content", [[{"type": "image_url", "image_url": {"url": "x"}}], ["text"], [{"type": "text"}], 5]
)
def test_content_that_is_not_text_is_refused(content: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _render(CHATML, [{"role": "user", "content": content}])
    assert caught.value.param == "messages"


def _calls(arguments: str) -> list[dict[str, Any]]:
    function = {"name": "f", "arguments": arguments}
    call = {"id": "1", "type": "function", "function": function}
    return [*USER, {"role": "assistant", "content": None, "tool_calls": [call]}]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [('{"x": "é"}', '{"x": "é"}'), ("", "{}"), ("{}", "{}"), ("{bad", '"{bad"'), ("[1]", '"[1]"')],
)
def test_arguments_of_tool_calls_are_objects_where_they_can_be(arguments: str, shown: str) -> None:
    """QwenLM/Qwen3 #1894: arguments are a JSON string on the wire, templates want a mapping."""
    source = "{% for c in messages[-1].tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}"
    assert _render(source, _calls(arguments)) == shown


def test_a_template_that_pastes_arguments_as_text_gets_the_text() -> None:
    source = (
        "{% for c in messages[-1].tool_calls %}{{ 'args: ' + c.function.arguments }}{% endfor %}"
    )
    assert _render(source, _calls('{"x": 1}')) == 'args: {"x": 1}'


def test_keys_that_say_nothing_are_not_there() -> None:
    source = "{{ 'calls' if messages[0].tool_calls is defined }}|{{ messages[0].content + '' }}"
    message = {"role": "user", "content": None, "tool_calls": [], "name": None}
    assert _render(source, [message]) == "|"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].content + 1 }}",
        "{{ messages[5].content.x }}",
        "{{ 1 / 0 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
    ],
)
def test_whatever_fails_in_a_template_is_a_400(source: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _render(source)
    assert caught.value.status == 400
    assert caught.value.param == "messages"


def test_the_templates_own_words_reach_the_client() -> None:
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        _render("{{ raise_exception('roles must alternate') }}")


def test_output_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_PROMPT_CHARACTERS", 1000)
    with pytest.raises(InvalidRequest, match="too large"):
        _render("{% for i in range(5000) %}{{ messages[0].content }}{% endfor %}")


def test_a_broken_template_is_a_broken_checkpoint() -> None:
    with pytest.raises(CheckpointError, match="line 2"):
        ChatTemplate("\n{% if %}", byte_level())


def test_variables_must_not_shadow_what_the_server_sets() -> None:
    with pytest.raises(InvalidRequest, match="messages"):
        _render(CHATML, variables={"messages": []})


@pytest.mark.parametrize("source", ["{{ bos_token }}x", "x"])
@pytest.mark.parametrize("add_bos", [True, False])
def test_the_template_alone_decides_about_bos(source: str, add_bos: bool) -> None:
    tokenizer = byte_level(add_bos_token=add_bos)
    ids = ChatTemplate(source, tokenizer).render_to_ids(USER)
    assert ids == ([259] if "bos" in source else []) + [ord("x")]


def test_a_lone_surrogate_is_the_clients_fault() -> None:
    message = json.loads('{"role": "user", "content": "\\ud800"}')
    with pytest.raises(InvalidRequest) as caught:
        ChatTemplate(CHATML, byte_level()).render_to_ids([message])
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{% set r = range(100000) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    ],
)
def test_a_template_that_does_not_end_is_refused(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDER_SECONDS", 0.2)
    with pytest.raises(CheckpointError, match="too long"):
        _render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 1000000000000 }}",
        "{{ [0] * 1000000000000 }}",
        "{{ 10 ** 99999 }}",
        DOUBLING.replace("?", "~"),
        DOUBLING.replace("?", "+"),
        "{{ '%999999999d' % 1 }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ 'a' | center(1000000000000) }}",
        "{{ 'a'.zfill(1000000000000) }}",
    ],
)
def test_a_template_that_builds_huge_values_is_refused(source: str) -> None:
    with pytest.raises(CheckpointError, match="too large"):
        _render(source)


def test_bounds_leave_ordinary_templates_alone() -> None:
    source = "{{ '%05.2f' % 1.5 }} {{ 'ab' * 2 ~ 3 ~ none }} {{ [1] + [2] }} {{ 'a' | center(3) }}|"
    assert _render(source) == "01.50 abab3None [1, 2]  a |"


@pytest.mark.parametrize(
    "source", ["{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}", "{% for i in 'a' %}" * 40]
)
def test_a_template_too_deep_to_compile_is_refused(source: str) -> None:
    with pytest.raises(CheckpointError, match="chat template, line"):
        _render(source + "{% endfor %}" * source.count("for"))
