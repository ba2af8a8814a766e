"""Tiny vocabularies as GGUF metadata, with ids that a test can name."""

from __future__ import annotations

from typing import Any

from stoker.text.gguf_tokenizer import TokenType
from stoker.text.pieces import byte_alphabet
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.contract import GGUFTokenizer


def byte_level_metadata(**changes: Any) -> dict[str, Any]:
    """Ids 0..255 are the bytes of that value; then `he`, `ll`, `hell`, and the special tokens.

    `changes` replace or add `tokenizer.ggml.` keys; None removes one.
    """
    alphabet = byte_alphabet()
    pieces = sorted(alphabet, key=lambda char: alphabet[char])
    pieces += ["he", "ll", "hell", "<|bos|>", "<|eos|>", "<think>"]
    types = [TokenType.NORMAL] * 259 + [TokenType.CONTROL] * 2 + [TokenType.USER_DEFINED]
    return _with(
        {
            "model": "gpt2",
            "pre": "gpt-2",
            "tokens": pieces,
            "token_type": types,
            "merges": ["h e", "l l", "he ll"],
            "bos_token_id": 259,
            "eos_token_id": 260,
        },
        changes,
    )


def sentencepiece_metadata(**changes: Any) -> dict[str, Any]:
    """<unk> <s> </s>, ids 3..258 the byte pieces, then letters and a few words."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    words = ["▁a", "ab", "▁ab", "▁", "a", "b", "c"]
    return _with(
        {
            "model": "llama",
            "tokens": pieces + words,
            "token_type": types + [TokenType.NORMAL] * len(words),
            "scores": [0.0] * 259 + [-float(i) for i in range(len(words))],
            "bos_token_id": 1,
            "eos_token_id": 2,
            "unknown_token_id": 0,
        },
        changes,
    )


def byte_level(**changes: Any) -> Tokenizer:
    return load_tokenizer(GGUFTokenizer(byte_level_metadata(**changes)))


def sentencepiece(**changes: Any) -> Tokenizer:
    return load_tokenizer(GGUFTokenizer(sentencepiece_metadata(**changes)))


def _with(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = values | changes
    return {f"tokenizer.ggml.{k}": v for k, v in merged.items() if v is not None}
