"""One assembler: the body is the fold of the stream, whatever the outputs were."""

from __future__ import annotations

import codecs
import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.assemble import (
    Assembler,
    ChatFormat,
    CompletionFormat,
    Format,
    Head,
    Prompt,
    fold,
)
from stoker.api.logprobs import Spelling
from stoker.core.errors import Draining, RequestFailed
from stoker.core.request import FinishReason, Output, TokenLogprobs, Usage
from tests.support.fake_engine import FakeTokenizer

TOKENIZER = FakeTokenizer(["ab", "é"])
SPELL = Spelling(TOKENIZER)
FORMATS = (ChatFormat(SPELL), CompletionFormat(SPELL, skip_special_tokens=True))
PROMPT = Prompt(token_ids=[1, 2, 3, 4])
HEAD = Head("id-1", 17, "fake")

token_ids = st.integers(0, TOKENIZER.vocab_size - 1)
logprob = st.one_of(st.floats(-30, 0), st.just(-math.inf))


@st.composite
def positions(draw: st.DrawFn) -> TokenLogprobs:
    top = draw(st.lists(token_ids, max_size=3))
    return TokenLogprobs(
        draw(token_ids), draw(logprob), tuple(top), tuple(draw(logprob) for _ in top)
    )


@st.composite
def choice_outputs(draw: st.DrawFn, choice: int) -> list[Output]:
    """The pieces of one choice, as `engine.client` may cut them."""
    with_logprobs = draw(st.booleans())
    pieces = draw(st.lists(st.tuples(st.text(max_size=3), st.lists(positions(), max_size=3))))
    pieces.append((draw(st.text(max_size=2)), draw(st.lists(positions(), max_size=1))))
    outputs, total = [], 0
    for number, (text, entries) in enumerate(pieces, 1):
        total += len(entries)
        is_last = number == len(pieces)
        outputs.append(
            Output(
                choice=choice,
                text=text,
                token_ids=tuple(entry.token_id for entry in entries),
                logprobs=tuple(entries) if with_logprobs else None,
                finish_reason=draw(st.sampled_from(["stop", "length"])) if is_last else None,
                stop_reason=draw(st.one_of(st.none(), st.text(max_size=3))) if is_last else None,
                usage=Usage(4, total, choice),
            )
        )
    return [_with_reason(output) for output in outputs]


def _with_reason(output: Output) -> Output:
    reason = output.finish_reason
    return dataclasses.replace(output, finish_reason=FinishReason(reason) if reason else None)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, Output]]]:
    """(prompts, n, outputs of all choices in a random interleaving)."""
    num_prompts, n = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    queues = [
        [(prompt, output) for output in draw(choice_outputs(choice))]
        for prompt in range(num_prompts)
        for choice in range(n)
    ]
    merged: list[tuple[int, Output]] = []
    while queues:
        queue = draw(st.sampled_from(queues))
        merged.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return num_prompts, n, merged


def assemble(
    wire_format: Format, run: tuple[int, int, list[tuple[int, Output]]], **options: Any
) -> list[dict[str, Any]]:
    num_prompts, n, outputs = run
    settings = {"include_usage": True, "return_token_ids": False} | options
    assembler = Assembler(wire_format, HEAD, [PROMPT] * num_prompts, n, **settings)
    chunks = [chunk for item in outputs for chunk in assembler.push(*item)]
    return chunks + assembler.finish()


@settings(max_examples=80, deadline=None)
@given(runs(), st.booleans(), st.sampled_from(FORMATS))
def test_a_client_that_adds_up_the_stream_has_the_body(
    run: tuple[int, int, list[tuple[int, Output]]], return_token_ids: bool, wire_format: Format
) -> None:
    chunks = assemble(wire_format, run, return_token_ids=return_token_ids)
    body = fold(wire_format, chunks)
    num_prompts, n, outputs = run
    assert [choice["index"] for choice in body["choices"]] == list(range(num_prompts * n))
    for choice in body["choices"]:
        index = choice["index"]
        pieces = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        mine = [o for prompt, o in outputs if prompt * n + o.choice == index]
        is_chat = "message" in choice
        text = choice["message"]["content"] if is_chat else choice["text"]
        told = [c["delta"].get("content", "") if is_chat else c["text"] for c in pieces]
        assert text == "".join(told) == "".join(o.text for o in mine)
        assert [c["finish_reason"] for c in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert choice["finish_reason"] == pieces[-1]["finish_reason"] == mine[-1].finish_reason
        assert choice["stop_reason"] == pieces[-1]["stop_reason"] == mine[-1].stop_reason
        tokens = [t for o in mine for t in o.token_ids]
        assert choice.get("token_ids") == (tokens if return_token_ids else None)
        entries = [entry for o in mine for entry in o.logprobs or ()]
        _check_logprobs(choice["logprobs"], entries)
    assert body["usage"] == chunks[-1]["usage"]
    assert body["usage"]["prompt_tokens"] == 4 * num_prompts
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert body["usage"]["completion_tokens"] == sum(len(o.token_ids) for _, o in outputs)


def _check_logprobs(logprobs: dict[str, Any] | None, entries: list[TokenLogprobs]) -> None:
    if not entries:
        assert logprobs is None
        return
    assert logprobs is not None
    if "content" in logprobs:
        found = [item["logprob"] for item in logprobs["content"]]
        tops = [len(item["top_logprobs"]) for item in logprobs["content"]]
        assert tops == [len(entry.top_ids) for entry in entries]
    else:
        found = logprobs["token_logprobs"]
        ids = [entry.token_id for entry in entries]
        for count, offset in enumerate(logprobs["text_offset"]):
            data = b"".join(TOKENIZER.visible_bytes(i, True) for i in ids[:count])
            # What is cut off inside a character is no character yet.
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            assert offset == len(decoder.decode(data))
        assert len(logprobs["top_logprobs"]) == len(entries)
    assert found == [max(entry.logprob, -9999.0) for entry in entries]


@pytest.mark.parametrize("wire_format", FORMATS)
def test_options_only_add(wire_format: Format) -> None:
    """usage and token ids change nothing else in a stream."""
    outputs = [(0, Output(choice=0, text="a", token_ids=(97,)))]
    outputs.append((0, Output(choice=0, finish_reason=FinishReason.STOP)))
    plain = assemble(wire_format, (1, 1, outputs), include_usage=False)
    full = assemble(wire_format, (1, 1, outputs))
    assert [chunk | {"usage": None} for chunk in plain] == full[:-1]


@pytest.mark.parametrize(
    ("reason", "error"), [(FinishReason.ABORT, Draining), (FinishReason.ERROR, RequestFailed)]
)
def test_an_end_that_nobody_asked_for_is_an_error(
    reason: FinishReason, error: type[Exception]
) -> None:
    assembler = Assembler(FORMATS[0], HEAD, [PROMPT], 1, include_usage=True, return_token_ids=False)
    with pytest.raises(error):
        assembler.push(0, Output(choice=0, finish_reason=reason))


def test_a_choice_without_an_end_is_an_error() -> None:
    assembler = Assembler(FORMATS[0], HEAD, [PROMPT], 2, include_usage=True, return_token_ids=False)
    assembler.push(0, Output(choice=0, finish_reason=FinishReason.STOP))
    assert assembler.unfinished == 1
    with pytest.raises(RequestFailed):
        assembler.finish()
