"""The tokenizer built from the demo model's GGUF tables against transformers' conversion of it.

The conversion takes tens of seconds, so its ids are kept as hashes; tests/data/make_golden.py made
them and says what it corrects in them.
"""

from __future__ import annotations

import pytest

from stoker.core.errors import CheckpointError
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.checkpoint import open_checkpoint
from tests.data.make_golden import GOLDEN, fingerprint
from tests.data.tokenizer_texts import all_texts


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    try:
        checkpoint = open_checkpoint("")
    except CheckpointError as error:
        pytest.skip(str(error))
    return load_tokenizer(checkpoint.tokenizer)


def test_ids_equal_those_of_transformers(tokenizer: Tokenizer) -> None:
    texts, golden = all_texts(), GOLDEN.read_text("ascii").split()
    assert len(texts) == len(golden)
    different = [
        text
        for text, expected in zip(texts, golden, strict=True)
        if fingerprint(tokenizer.encode(text, add_special_tokens=False)) != expected
    ]
    assert different == []


def test_every_text_comes_back(tokenizer: Tokenizer) -> None:
    for text in all_texts():
        ids = tokenizer.encode(text, add_special_tokens=True)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_digits_stand_alone_after_a_run_of_spaces(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("x  12", add_special_tokens=False)
    assert [tokenizer.id_to_piece(i) for i in ids] == ["x", "ĠĠ", "1", "2"]


def test_vocabulary_facts(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 49152
    assert (tokenizer.bos_id, tokenizer.eos_id) == (1, 2)
    assert tokenizer.special_ids == frozenset(range(17))
    assert tokenizer.encode("<|im_end|>", add_special_tokens=True) == [2]
