"""Token events → pieces: the whole is the same however the tokens are spread over events."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.request import FinishReason, Output, SamplingParams, TokenEvent, TokenLogprobs
from stoker.engine.outputs import OutputProcessor, merge
from tests.support.engine import EOS, ByteTokenizer

PROMPT = list(b"prompt")


def run(params: SamplingParams, events: list[TokenEvent]) -> list[Output]:
    processor = OutputProcessor(ByteTokenizer(), PROMPT, params, choice=0)  # type: ignore[arg-type]
    return [output for event in events if (output := processor.push(event)) is not None]


def whole(params: SamplingParams, events: list[TokenEvent]) -> Output:
    return reduce(merge, run(params, events))


def event(text: bytes | list[int], reason: FinishReason | None = None, **more: int) -> TokenEvent:
    ids = tuple(text)
    logprobs = tuple(TokenLogprobs(i, -0.5) for i in ids)
    return TokenEvent(
        request_id="r",
        token_ids=ids,
        logprobs=logprobs,
        finish_reason=reason,
        stop_token_id=more.get("stop"),
        num_cached_tokens=more.get("cached", 0),
    )


def test_end_of_sequence_counts_but_is_not_text() -> None:
    answer = whole(SamplingParams(), [event(b"hi"), event([EOS], FinishReason.STOP, stop=EOS)])
    assert answer.text == "hi"
    assert answer.token_ids == (*b"hi", EOS)
    assert answer.usage.completion_tokens == 3
    assert answer.logprobs is not None and len(answer.logprobs) == 3
    assert (answer.finish_reason, answer.stop_reason) == (FinishReason.STOP, None)


@pytest.mark.parametrize(("include", "text"), [(False, "hi"), (True, "hi!")])
def test_stop_token_is_text_only_where_asked_for(include: bool, text: str) -> None:
    stop = ord("!")
    params = SamplingParams(stop_token_ids=(stop,), include_stop_str_in_output=include)
    answer = whole(params, [event(b"hi!", FinishReason.STOP, stop=stop)])
    assert answer.text == text
    assert answer.stop_reason == stop
    assert answer.usage.completion_tokens == 3


def test_skip_special_tokens_off_shows_them_except_the_one_that_ends() -> None:
    params = SamplingParams(skip_special_tokens=False, ignore_eos=True)
    answer = whole(params, [event([*b"a", EOS, *b"b"], FinishReason.LENGTH)])
    assert answer.text == "a<end>b"


def test_stop_string_over_several_tokens_and_events_is_never_shown() -> None:
    params = SamplingParams(stop=("DEFG",))
    pieces = run(params, [event(b"abcD"), event(b"EF"), event(b"Gxyz"), event(b"more")])
    assert [p.text for p in pieces] == ["abc", "", ""]
    last = pieces[-1]
    assert (last.finish_reason, last.stop_reason) == (FinishReason.STOP, "DEFG")
    assert last.token_ids == tuple(b"G"), "what follows the stop string is dropped"
    assert last.usage.completion_tokens == 7
    assert last.timing.finished > 0


def test_half_a_stop_string_at_the_end_is_text() -> None:
    assert whole(SamplingParams(stop=("END",)), [event(b"aEN", FinishReason.LENGTH)]).text == "aEN"


@pytest.mark.parametrize(("min_tokens", "text"), [(0, "a"), (1, "a"), (2, "a\nb"), (3, "a\nb")])
def test_stop_strings_wait_for_min_tokens(min_tokens: int, text: str) -> None:
    params = SamplingParams(stop=("\n",), min_tokens=min_tokens)
    assert whole(params, [event(b"a\nb\nc", FinishReason.LENGTH)]).text == text


def test_a_character_split_over_events_comes_whole() -> None:
    fire = "🔥".encode()
    pieces = run(SamplingParams(), [event([b]) for b in fire] + [event(b"", FinishReason.STOP)])
    assert [p.text for p in pieces] == ["", "", "", "🔥", ""]


def test_an_unfinished_character_is_flushed_once_at_the_end() -> None:
    assert whole(SamplingParams(), [event(b"a\xf0\x9f", FinishReason.LENGTH)]).text == "a\ufffd"


def test_events_after_the_end_are_ignored() -> None:
    pieces = run(SamplingParams(), [event(b"a", FinishReason.LENGTH), event(b"b")])
    assert len(pieces) == 1


def test_cached_tokens_stay_in_the_usage() -> None:
    pieces = run(SamplingParams(), [event(b"a", cached=4), event(b"b", FinishReason.LENGTH)])
    assert [p.usage.cached_tokens for p in pieces] == [4, 4]


@given(
    text=st.lists(st.sampled_from([*b"ab\n", *"é".encode(), EOS]), min_size=1, max_size=12),
    stops=st.lists(st.sampled_from(["a", "ab", "b\n", "ba", "éa"]), max_size=2),
    include=st.booleans(),
    min_tokens=st.integers(0, 4),
    cuts=st.lists(st.integers(0, 12), max_size=6),
)
def test_the_whole_does_not_depend_on_how_tokens_are_spread_over_events(
    text: list[int], stops: list[str], include: bool, min_tokens: int, cuts: list[int]
) -> None:
    params = SamplingParams(
        stop=tuple(stops), include_stop_str_in_output=include, min_tokens=min_tokens
    )
    edges = sorted({0, len(text), *(c for c in cuts if c < len(text))})
    split = [event(text[a:b]) for a, b in itertools.pairwise(edges)]
    split[-1] = event(split[-1].token_ids, FinishReason.LENGTH)  # type: ignore[arg-type]
    one = whole(params, [event(text, FinishReason.LENGTH)])
    many = whole(params, split)
    assert (many.text, many.token_ids, many.logprobs) == (one.text, one.token_ids, one.logprobs)
    assert (many.finish_reason, many.stop_reason) == (one.finish_reason, one.stop_reason)
    assert many.usage == one.usage
