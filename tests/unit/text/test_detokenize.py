from __future__ import annotations

from stoker.text.detokenize import Detokenizer
from tests.support.vocabularies import byte_level, sentencepiece

SPACE_A = 259


def test_the_first_space_belongs_to_the_output_after_a_prompt() -> None:
    after_nothing = Detokenizer(sentencepiece(), [1], skip_special_tokens=True)
    assert after_nothing.push([SPACE_A, SPACE_A]) == "a a"
    after_text = Detokenizer(sentencepiece(), [1, SPACE_A], skip_special_tokens=True)
    assert after_text.push([SPACE_A]) == " a"


def test_special_tokens_are_shown_on_demand() -> None:
    hidden = Detokenizer(byte_level(), [], skip_special_tokens=True)
    assert hidden.push([97, 260, 98]) == "ab"
    shown = Detokenizer(byte_level(), [], skip_special_tokens=False)
    assert shown.push([97, 260, 98]) == "a<|eos|>b"


def test_bytes_that_never_become_a_character_do_not_stall_the_stream() -> None:
    stream = Detokenizer(byte_level(), [], skip_special_tokens=True)
    text = "".join(stream.push([0x80]) for _ in range(50))
    assert text == "\ufffd" * 50


def test_a_character_may_be_cut_by_a_special_token_that_is_skipped() -> None:
    stream = Detokenizer(byte_level(), [], skip_special_tokens=True)
    assert stream.push([0xC3, 260, 0xA9]) == "é"


def test_empty_pushes_do_not_use_up_the_first_space() -> None:
    stream = Detokenizer(sentencepiece(), [1], skip_special_tokens=True)
    assert stream.push([]) == ""
    assert stream.push([2]) == ""
    assert stream.push([SPACE_A]) == "a"
