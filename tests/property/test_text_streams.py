"""Streams of text do not depend on where they are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.text.detokenize import Detokenizer
from stoker.text.stop import StopMatcher
from stoker.text.tokenizer import Tokenizer
from tests.support.vocabularies import byte_level, sentencepiece

TOKENIZERS = [byte_level(), sentencepiece(), sentencepiece(add_space_prefix=False)]

# Bytes of é, 🔥 and ASCII come often, so that characters get complete, broken and completed late.
BYTES = st.sampled_from([0xC3, 0xA9, 0xF0, 0x9F, 0x94, 0xA5, 0x41, 0x20, 0xE2])


@st.composite
def _case(draw: st.DrawFn) -> tuple[Tokenizer, list[int], list[int]]:
    """A tokenizer, a prompt and an output."""
    tokenizer = draw(st.sampled_from(TOKENIZERS))
    first_byte = 0 if tokenizer is TOKENIZERS[0] else 3
    token = st.one_of(
        BYTES.map(lambda byte: byte + first_byte), st.integers(0, tokenizer.vocab_size + 2)
    )
    return tokenizer, draw(st.lists(token, max_size=8)), draw(st.lists(token, max_size=24))


def _cut(draw: st.DataObject, length: int) -> list[slice]:
    cuts = draw.draw(st.lists(st.integers(0, length), max_size=8).map(sorted))
    return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, length], strict=True)]


@given(case=_case(), skip=st.booleans(), data=st.data())
def test_the_text_of_an_output_is_what_decode_adds_to_the_prompt(
    case: tuple[Tokenizer, list[int], list[int]], skip: bool, data: st.DataObject
) -> None:
    tokenizer, prompt, output = case
    stream = Detokenizer(tokenizer, prompt, skip)
    deltas = [stream.push(output[part]) for part in _cut(data, len(output))]
    text = "".join(deltas) + stream.flush()
    before, both = tokenizer.decode(prompt, skip), tokenizer.decode(prompt + output, skip)
    if both.startswith(before):
        assert text == both[len(before) :]
    else:
        # The prompt ended inside a character, which the output completed.
        assert before.endswith("\ufffd")
        assert text == both[len(before) - 1 :]


@given(case=_case(), skip=st.booleans())
def test_nothing_is_shown_late(case: tuple[Tokenizer, list[int], list[int]], skip: bool) -> None:
    """After every token all but at most three bytes have been shown."""
    tokenizer, _, output = case
    stream = Detokenizer(tokenizer, [], skip)
    shown = ""
    for i in range(len(output)):
        shown += stream.push(output[i : i + 1])
        whole = tokenizer.decode(output[: i + 1], skip)
        assert whole.startswith(shown)
        # Two: the first bytes of a surrogate are no character, but held back like one.
        assert whole[len(shown) :] in ("", "\ufffd", "\ufffd\ufffd")


STOPS = st.lists(st.text("ab.", min_size=1, max_size=5), max_size=4)


def _feed(stops: list[str], include: bool, pieces: list[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops, include)
    text = ""
    for piece in pieces:
        match = matcher.push(piece)
        text += match.text
        if match.matched is not None:
            return text, match.matched
    return text + matcher.flush(), None


def _expected(stops: list[str], include: bool, text: str) -> tuple[str, str | None]:
    """The definition: the first end of any stop string, there the longest one."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            stop = max(found, key=len)
            return text[:end] if include else text[: end - len(stop)], stop
    return text, None


@given(stops=STOPS, include=st.booleans(), text=st.text("ab.", max_size=40), data=st.data())
def test_a_stop_string_is_found_wherever_the_text_is_cut(
    stops: list[str], include: bool, text: str, data: st.DataObject
) -> None:
    pieces = [text[part] for part in _cut(data, len(text))]
    assert _feed(stops, include, pieces) == _expected(stops, include, text)


@given(stops=STOPS, text=st.text("ab.", max_size=40), data=st.data())
def test_exactly_what_may_become_a_stop_string_is_held_back(
    stops: list[str], text: str, data: st.DataObject
) -> None:
    matcher = StopMatcher(stops, include=False)
    seen = shown = ""
    for part in _cut(data, len(text)):
        seen += text[part]
        match = matcher.push(text[part])
        if match.matched is not None:
            return
        shown += match.text
        held = seen[len(shown) :]
        ends = [seen[i:] for i in range(len(seen) + 1)]
        longest = next(e for e in ends if not e or any(s.startswith(e) for s in stops))
        assert held == longest
