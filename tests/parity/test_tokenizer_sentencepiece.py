"""SentencePiece BPE rebuilt from pieces and scores against the sentencepiece library itself.

A small model is trained here; its pieces and scores are what a GGUF file would hold.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.text.gguf_tokenizer import TokenType
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.contract import GGUFTokenizer
from tests.data.tokenizer_texts import WRITTEN, generated

sentencepiece = pytest.importorskip("sentencepiece")

USER_DEFINED = ["<think>", "\n\n"]


def _train(**options: Any) -> Any:
    # Words that repeat with small changes give the scores many ties of parts to get wrong.
    words = "banana bandana cabana ananas aa aaa aaaa abab ababab the then there here hers"
    lines = [" ".join(words.split()[i % 15 :]) for i in range(60)]
    lines += [text for text in WRITTEN if text.strip() and "\0" not in text] * 2
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=900,
        character_coverage=0.98,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        user_defined_symbols=USER_DEFINED,
        minloglevel=2,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def _metadata(model: Any, add_space_prefix: bool) -> dict[str, Any]:
    def kind(i: int) -> TokenType:
        if model.is_unknown(i):
            return TokenType.UNKNOWN
        if model.is_control(i):
            return TokenType.CONTROL
        if model.is_byte(i):
            return TokenType.BYTE
        is_user_defined = model.id_to_piece(i) in USER_DEFINED
        return TokenType.USER_DEFINED if is_user_defined else TokenType.NORMAL

    ids = range(model.vocab_size())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [model.id_to_piece(i) for i in ids],
        "tokenizer.ggml.scores": np.array([model.get_score(i) for i in ids], np.float32),
        "tokenizer.ggml.token_type": np.array([kind(i) for i in ids], np.int32),
        "tokenizer.ggml.bos_token_id": model.bos_id(),
        "tokenizer.ggml.eos_token_id": model.eos_id(),
        "tokenizer.ggml.unknown_token_id": model.unk_id(),
        "tokenizer.ggml.add_space_prefix": add_space_prefix,
    }


@pytest.fixture(scope="module", params=[True, False], ids=["space-prefix", "no-prefix"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, Tokenizer]:
    model = _train(add_dummy_prefix=request.param)
    return model, load_tokenizer(GGUFTokenizer(_metadata(model, request.param)))


def _comparable(text: str) -> bool:
    """sentencepiece reads no control tokens in a text, and gives U+2581 back as a space."""
    return not any(word in text for word in ("<s>", "</s>", "<unk>", "▁"))


def _agree(pair: tuple[Any, Tokenizer], text: str) -> None:
    model, tokenizer = pair
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert ids == model.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_written_and_generated_texts(pair: tuple[Any, Tokenizer]) -> None:
    for text in filter(_comparable, [*WRITTEN, *generated(500, seed=7)]):
        _agree(pair, text)


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text("abn 1\n", max_size=60), st.text(max_size=40)).filter(_comparable))
def test_any_text(pair: tuple[Any, Tokenizer], text: str) -> None:
    _agree(pair, text)


def test_bos_is_added_by_default_and_never_twice(pair: tuple[Any, Tokenizer]) -> None:
    model, tokenizer = pair
    plain = tokenizer.encode("banana", add_special_tokens=False)
    assert tokenizer.encode("banana", add_special_tokens=True) == [model.bos_id(), *plain]
    assert tokenizer.encode("<s>banana", add_special_tokens=True) == [model.bos_id(), *plain]
