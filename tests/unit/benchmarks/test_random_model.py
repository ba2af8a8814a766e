"""The model of random weights is a GGUF file that this engine opens, tokenizer and all."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import random_model
from benchmarks.peers.machine import bytes_per_token
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import open_checkpoint

SMALL = {"HIDDEN": 64, "LAYERS": 2, "FFN": 96, "HEADS": 4, "KV_HEADS": 2, "VOCAB": 300}


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, value in SMALL.items():
        monkeypatch.setattr(random_model, name, value)
    path = tmp_path / "random.F16.gguf"
    random_model.write_random_llama(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    return path


def test_it_opens_with_the_asked_shape(file: Path) -> None:
    config = open_checkpoint(str(file)).config
    assert (config.hidden_size, config.num_layers, config.intermediate_size) == (64, 2, 96)
    assert (config.num_heads, config.num_kv_heads, config.vocab_size) == (4, 2, 300)
    assert not config.tie_word_embeddings


def test_its_tokenizer_spells_any_text(file: Path) -> None:
    tokenizer = load_tokenizer(open_checkpoint(str(file)).tokenizer)
    ids = tokenizer.encode("naïve w1", add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == "naïve w1"


def test_a_token_reads_all_weights_but_the_embedding(file: Path) -> None:
    embedding = 2 * 300 * 64
    matrices = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96)
    norms = 4 * 64 * (2 * 2 + 1)
    assert bytes_per_token(file) == embedding + 2 * matrices + norms
