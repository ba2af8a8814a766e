"""What a tokenizer is made of, as the readers of each file format hand it over."""

from __future__ import annotations

from dataclasses import dataclass

import tokenizers

from stoker.text.pieces import Spelling


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerParts:
    """Everything `Tokenizer` needs; built by `gguf_tokenizer` or `hub_tokenizer`."""

    backend: tokenizers.Tokenizer
    """Encodes; its post-processor is not used, because BOS is added in one place only."""
    spelling: Spelling
    strips_first_space: bool
    """The vocabulary puts a space before every text, so decoding takes one away."""
    prepends_space: bool
    """That space is not yet the backend's work, so `Tokenizer.encode` puts it there."""
    vocab_size: int
    bos_id: int | None
    eos_id: int | None
    add_bos: bool
    """Prompts start with BOS."""
    chat_template: str | None
