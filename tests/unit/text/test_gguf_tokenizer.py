from __future__ import annotations

from typing import Any

import pytest

from stoker.core.errors import CheckpointError, InvalidRequest
from stoker.text.gguf_tokenizer import TokenType
from stoker.text.pretokenizers import RULES
from stoker.text.spm_merges import merges_from_scores
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.contract import GGUFTokenizer
from tests.support.vocabularies import (
    byte_level,
    byte_level_metadata,
    sentencepiece,
    sentencepiece_metadata,
)

BOS, EOS, THINK = 259, 260, 261


def test_byte_level_merges_in_their_order() -> None:
    tokenizer = byte_level()
    assert tokenizer.encode("hello", add_special_tokens=True) == [258, ord("o")]
    assert tokenizer.encode("he", add_special_tokens=True) == [256]


def test_special_tokens_are_read_whole_and_skipped_on_demand() -> None:
    tokenizer = byte_level()
    ids = tokenizer.encode("a<|eos|><think>b", add_special_tokens=False)
    assert ids == [97, EOS, THINK, 98]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a<think>b"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "a<|eos|><think>b"
    assert tokenizer.special_ids == {BOS, EOS}


def test_control_tokens_outside_the_byte_alphabet_keep_their_text() -> None:
    metadata = byte_level_metadata()
    metadata["tokenizer.ggml.tokens"][BOS] = "<｜begin▁of▁text｜>"
    tokenizer = load_tokenizer(GGUFTokenizer(metadata))
    assert tokenizer.encode("<｜begin▁of▁text｜>", add_special_tokens=False) == [BOS]
    assert tokenizer.decode([BOS], skip_special_tokens=False) == "<｜begin▁of▁text｜>"


@pytest.mark.parametrize(
    ("pre", "said", "starts_with_bos"),
    [
        ("gpt-2", None, False),
        ("gpt-2", True, True),
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
    ],
)
def test_bos_of_byte_level(pre: str, said: bool | None, starts_with_bos: bool) -> None:
    tokenizer = byte_level(pre=pre, add_bos_token=said)
    ids = tokenizer.encode("x", add_special_tokens=True)
    assert ids == ([BOS] if starts_with_bos else []) + [ord("x")]
    assert tokenizer.encode("x", add_special_tokens=False) == [ord("x")]


def test_bos_that_the_text_spells_is_not_doubled() -> None:
    tokenizer = byte_level(add_bos_token=True)
    assert tokenizer.encode("<|bos|>x", add_special_tokens=True) == [BOS, ord("x")]


def test_unicode_is_composed_for_qwen_only() -> None:
    decomposed = "e\u0301"
    qwen = byte_level(pre="qwen2").encode(decomposed, add_special_tokens=False)
    assert qwen == list("é".encode())
    gpt2 = byte_level(pre="gpt-2").encode(decomposed, add_special_tokens=False)
    assert gpt2 == list(decomposed.encode())


def _cuts(pre: str, text: str) -> list[str]:
    cut = RULES[pre].split().pre_tokenize_str(text)
    return [text[start:end] for _, (start, end) in cut]


def test_how_each_family_cuts_text() -> None:
    text = "I'LL pay  1234\n\n  x.\n"
    assert _cuts("gpt-2", text) == ["I", "'", "LL", " pay", " ", " 1234", "\n\n ", " x", ".", "\n"]
    assert _cuts("smollm", text)[4:9] == ["  ", "1", "2", "3", "4"]
    llama = ["I", "'LL", " pay", " ", " ", "123", "4", "\n\n", " ", " x", ".\n"]
    assert _cuts("llama-bpe", text) == llama
    assert _cuts("qwen2", text)[3:9] == [" ", " ", "1", "2", "3", "4"]
    assert _cuts("tekken", "HelloWorld/\n")[:2] == ["Hello", "World"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "holds no tokenizer"),
        ({"model": "bert"}, "'bert'"),
        ({"pre": "mystery"}, "'mystery'"),
        ({"tokens": None}, "tokenizer.ggml.tokens"),
        ({"merges": None}, "tokenizer.ggml.merges"),
        ({"merges": ["h zzz"]}, "does not fit together"),
        ({"token_type": [1, 2]}, "has 2 entries"),
        ({"bos_token_id": 999}, "999"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        byte_level(**changes)


def test_sentencepiece_needs_a_score_per_piece() -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.scores has 1 entries"):
        sentencepiece(scores=[0.0])


def test_sentencepiece_puts_one_space_before_prose() -> None:
    tokenizer = sentencepiece()
    pieces = [
        [tokenizer.id_to_piece(i) for i in tokenizer.encode(text, add_special_tokens=False)]
        for text in ("ab", " ab", "<s>ab", "</s>ab", "", "<s>")
    ]
    assert pieces == [["▁ab"], ["▁", "▁ab"], ["<s>", "▁ab"], ["</s>", "ab"], [], ["<s>"]]


def test_sentencepiece_takes_the_space_away_again() -> None:
    tokenizer = sentencepiece()
    ids = tokenizer.encode(" ab c🔥", add_special_tokens=True)
    assert ids[0] == 1
    assert tokenizer.decode(ids, skip_special_tokens=True) == " ab c🔥"


def test_byte_pieces_are_bytes_and_text_that_looks_like_one_is_not() -> None:
    tokenizer = sentencepiece()
    assert tokenizer.token_bytes(3 + 0x41) == b"A"
    ids = tokenizer.encode("<0x41>", add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<0x41>"


def test_user_defined_pieces_come_before_merges() -> None:
    metadata = sentencepiece_metadata()
    tokens = metadata["tokenizer.ggml.tokens"]
    metadata["tokenizer.ggml.token_type"][tokens.index("ab")] = TokenType.USER_DEFINED
    tokenizer = load_tokenizer(GGUFTokenizer(metadata))
    ids = tokenizer.encode("ab", add_special_tokens=False)
    assert [tokens[i] for i in ids] == ["▁", "ab"]


def test_merges_follow_the_scores_and_leave_out_what_cannot_merge() -> None:
    tokens = ["a", "b", "ab", "abb", "bb", "ba"]
    scores = [0.0, 0.0, -2.0, -3.0, -1.0, -9.0]
    merges = merges_from_scores(tokens, scores, [True] * 5 + [False])
    assert merges == [("b", "b"), ("a", "b"), ("a", "bb"), ("ab", "b")]


def test_ids_outside_the_vocabulary_give_nothing() -> None:
    tokenizer = byte_level()
    assert tokenizer.decode([97, 5000, -1, 98], skip_special_tokens=True) == "ab"
    assert tokenizer.id_to_piece(5000) == ""


def test_half_a_surrogate_pair_is_the_clients_fault() -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        byte_level().encode("a\ud800", add_special_tokens=True)
