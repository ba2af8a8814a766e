"""A tokenizer straight from a GGUF file's own tables (keys: the GGUF specification).

Knows metadata by GGUF key, never the file. Two kinds of vocabulary: `gpt2`, byte-level BPE with its
merges in the file, and `llama`, SentencePiece BPE with a score per piece and no merges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import tokenizers
from tokenizers import AddedToken, models, normalizers

from stoker.core.errors import CheckpointError
from stoker.text.parts import TokenizerParts
from stoker.text.pieces import Spelling
from stoker.text.pretokenizers import pre_tokenizer
from stoker.text.spm_merges import merges_from_scores

_PREFIX = "tokenizer.ggml."


class TokenType(IntEnum):
    """Values of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class _Table:
    """The vocabulary of the file, checked."""

    tokens: list[str]
    types: list[int]
    ids: dict[str, int]
    """Token → id; the first of equal tokens."""


def read_gguf_tokenizer(metadata: Mapping[str, Any]) -> TokenizerParts:
    """Build the parts of the tokenizer that `metadata` (GGUF key → value) describes.

    Raises:
        CheckpointError: no tokenizer in the file, tables that contradict each other, or a kind of
            vocabulary or pre-tokenizer that is not known.
    """
    kind = metadata.get(_PREFIX + "model")
    if kind is None:
        raise CheckpointError("the GGUF file holds no tokenizer (no tokenizer.ggml.model)")
    reader = _READERS.get(kind)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise CheckpointError(
            f"tokenizer model {kind!r} of the GGUF file is unknown; known: {known}"
        )
    return reader(metadata, _read_table(metadata))


def _read_table(metadata: Mapping[str, Any]) -> _Table:
    tokens = metadata.get(_PREFIX + "tokens")
    if tokens is None or not len(tokens):
        raise CheckpointError("the GGUF file holds no vocabulary (no tokenizer.ggml.tokens)")
    types = metadata.get(_PREFIX + "token_type")
    types = [TokenType.NORMAL] * len(tokens) if types is None else [int(t) for t in types]
    if len(types) != len(tokens):
        raise CheckpointError(
            f"tokenizer.ggml.token_type has {len(types)} entries, but tokenizer.ggml.tokens has "
            f"{len(tokens)}"
        )
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}
    return _Table(list(tokens), types, ids)


def _read_byte_level(metadata: Mapping[str, Any], table: _Table) -> TokenizerParts:
    rule = pre_tokenizer(str(metadata.get(_PREFIX + "pre", "default")))
    lines: Sequence[str] | None = metadata.get(_PREFIX + "merges")
    if lines is None:
        raise CheckpointError("the GGUF file holds no merges (no tokenizer.ggml.merges)")
    # A merge is two pieces and one space between; a piece itself never holds a space.
    merges = [(left, right) for left, _, right in (line.partition(" ") for line in lines)]
    backend = _backend(
        lambda: models.BPE(vocab=table.ids, merges=merges, ignore_merges=rule.whole_words)
    )
    backend.pre_tokenizer = rule.split()
    if (normalizer := rule.normalizer()) is not None:
        backend.normalizer = normalizer
    _add_tokens(backend, table)
    return TokenizerParts(
        backend=backend,
        spelling=Spelling.BYTE_LEVEL,
        strips_first_space=False,
        prepends_space=False,
        vocab_size=len(table.tokens),
        bos_id=_token_id(metadata, "bos_token_id", table),
        eos_id=_token_id(metadata, "eos_token_id", table),
        add_bos=bool(metadata.get(_PREFIX + "add_bos_token", rule.add_bos)),
        chat_template=metadata.get("tokenizer.chat_template"),
    )


def _read_sentencepiece(metadata: Mapping[str, Any], table: _Table) -> TokenizerParts:
    scores = metadata.get(_PREFIX + "scores")
    if scores is None or len(scores) != len(table.tokens):
        raise CheckpointError(
            f"tokenizer.ggml.scores has {0 if scores is None else len(scores)} entries, but "
            f"tokenizer.ggml.tokens has {len(table.tokens)}"
        )
    can_merge = [t in (TokenType.NORMAL, TokenType.UNUSED) for t in table.types]
    merges = merges_from_scores(table.tokens, scores, can_merge)
    unknown = _token_id(metadata, "unknown_token_id", table)
    backend = _backend(
        lambda: models.BPE(
            vocab=table.ids,
            merges=merges,
            unk_token=None if unknown is None else table.tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    space_prefix = bool(metadata.get(_PREFIX + "add_space_prefix", True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    _add_tokens(backend, table)
    return TokenizerParts(
        backend=backend,
        spelling=Spelling.SENTENCEPIECE,
        strips_first_space=space_prefix,
        prepends_space=space_prefix,
        vocab_size=len(table.tokens),
        bos_id=_token_id(metadata, "bos_token_id", table),
        eos_id=_token_id(metadata, "eos_token_id", table),
        add_bos=bool(metadata.get(_PREFIX + "add_bos_token", True)),
        chat_template=metadata.get("tokenizer.chat_template"),
    )


_READERS: dict[str, Callable[[Mapping[str, Any], _Table], TokenizerParts]] = {
    "gpt2": _read_byte_level,
    "llama": _read_sentencepiece,
}


def _backend(build: Callable[[], models.BPE]) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer(build())
    except Exception as error:  # the library raises plain Exception for a merge out of vocabulary
        raise CheckpointError(
            f"the GGUF file's vocabulary does not fit together: {error}"
        ) from error


def _add_tokens(backend: tokenizers.Tokenizer, table: _Table) -> None:
    """Have tokens that no merge builds matched whole, in raw text, before anything else."""
    special, plain = [], []
    for token, kind in zip(table.tokens, table.types, strict=True):
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN):
            special.append(AddedToken(token, special=True, normalized=False))
        elif kind == TokenType.USER_DEFINED:
            plain.append(AddedToken(token, special=False, normalized=False))
    backend.add_special_tokens(special)
    backend.add_tokens(plain)


def _token_id(metadata: Mapping[str, Any], name: str, table: _Table) -> int | None:
    value = metadata.get(_PREFIX + name)
    if value is None:
        return None
    if not 0 <= int(value) < len(table.tokens):
        raise CheckpointError(
            f"tokenizer.ggml.{name} is {int(value)}, but the vocabulary has "
            f"{len(table.tokens)} tokens"
        )
    return int(value)
