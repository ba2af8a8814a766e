"""Known defects of streamed text: cases 1, 2 and 3 of the project's list, at the level of text."""

from __future__ import annotations

import pytest

from stoker.text.detokenize import Detokenizer
from stoker.text.stop import StopMatcher
from tests.support.vocabularies import byte_level, sentencepiece


@pytest.mark.parametrize("text", ["🔥", "ď", "ภาษา", "👩\u200d👩\u200d👧", "a🔥b ď", "日本"])
def test_a_character_spread_over_tokens_comes_out_whole(text: str) -> None:
    """vllm-project/vllm #48853: byte tokens of one character were streamed as U+FFFD."""
    for tokenizer, first_byte in ((byte_level(), 0), (sentencepiece(add_space_prefix=False), 3)):
        ids = [byte + first_byte for byte in text.encode()]
        stream = Detokenizer(tokenizer, [], skip_special_tokens=True)
        deltas = [stream.push([i]) for i in ids]
        assert not any("\ufffd" in delta for delta in deltas)
        assert "".join(deltas) == text == tokenizer.decode(ids, skip_special_tokens=True)
        assert stream.flush() == ""


def test_a_prompt_that_ends_inside_a_character_is_not_repeated() -> None:
    """vllm-project/vllm #48853: the first delta repeated the whole prompt."""
    flame = "🔥".encode()
    prompt = [*b"some prompt ", *flame[:2]]
    stream = Detokenizer(byte_level(), prompt, skip_special_tokens=True)
    assert [stream.push([i]) for i in flame[2:]] == ["", "🔥"]
    assert stream.push([0x41]) == "A"

    stream = Detokenizer(byte_level(), prompt, skip_special_tokens=True)
    assert stream.push([0x41]) == "A"
    assert Detokenizer(byte_level(), prompt, skip_special_tokens=True).flush() == ""


def test_an_unfinished_character_at_the_end_is_flushed_once() -> None:
    """vllm-project/vllm #48853: what was held back was lost or came twice."""
    stream = Detokenizer(byte_level(), [], skip_special_tokens=True)
    assert stream.push([0x41, 0xF0, 0x9F]) == "A"
    assert stream.flush() == "\ufffd"


@pytest.mark.parametrize("pieces", [["DEF", "G", "HI", "J"], list("DEFGHIJ"), ["DEFGHIJ"]])
def test_a_stop_string_over_several_tokens_leaves_nothing(pieces: list[str]) -> None:
    """vllm-project/vllm #3574, #2577: the beginning of the stop string was already streamed."""
    matcher = StopMatcher(["DEFGHIJ"], include=False)
    matches = [matcher.push(piece) for piece in pieces]
    assert "".join(match.text for match in matches) == ""
    assert matches[-1].matched == "DEFGHIJ"


def test_a_stop_string_inside_one_token_keeps_only_the_text_before() -> None:
    """vllm-project/vllm #57052: text after the stop string was sent."""
    matcher = StopMatcher(["STOP"], include=False)
    match = matcher.push("before STOP after")
    assert (match.text, match.matched) == ("before ", "STOP")
    assert matcher.push("more").text == ""
    assert matcher.flush() == ""


def test_text_that_cannot_become_a_stop_string_is_not_held_back() -> None:
    """vllm-project/vllm #11089, #13087: len(stop) - 1 characters were always withheld."""
    matcher = StopMatcher(["Observation:"], include=False)
    assert matcher.push("The").text == "The"
    assert matcher.push(" O").text == " "
    assert matcher.push("ther").text == "Other"
    matcher = StopMatcher(["</answer>"], include=False)
    assert matcher.push("done</think>").text == "done</think>"
