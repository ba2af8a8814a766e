"""The one tokenizer class, whatever file format the vocabulary came in.

Encoding is the `tokenizers` library's. Decoding is ours, byte by byte (see `pieces`), so that whole
texts and streams of tokens (`detokenize`) follow the same rule. Knows nothing of engines.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.core.errors import InvalidRequest
from stoker.text.gguf_tokenizer import read_gguf_tokenizer
from stoker.text.hub_tokenizer import read_hub_tokenizer
from stoker.text.parts import TokenizerParts
from stoker.text.pieces import piece_bytes
from stoker.weights.contract import GGUFTokenizer, TokenizerSource


class Tokenizer:
    """Text to token ids and back. Safe to use from several threads."""

    def __init__(self, parts: TokenizerParts) -> None:
        self._backend = parts.backend
        self._spelling = parts.spelling
        self._prefix = [parts.bos_id] if parts.add_bos and parts.bos_id is not None else []
        added = parts.backend.get_added_tokens_decoder()
        self._added_ids = frozenset(added)
        self._bytes: dict[int, bytes] = {}
        self._prepends_space = parts.prepends_space
        special = {i: token.content for i, token in added.items() if token.special}
        self._special_pieces = tuple(special.values())
        self.vocab_size = parts.vocab_size
        self.bos_id = parts.bos_id
        self.eos_id = parts.eos_id
        self.chat_template = parts.chat_template
        self.strips_first_space = parts.strips_first_space
        """A text's first space is the vocabulary's own and not part of the text."""
        self.special_ids = frozenset(special)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """Token ids of `text`; special tokens written in it become those tokens.

        With `add_special_tokens` the ids start with BOS where the model wants it: exactly once,
        also where `text` spells it already.

        Raises:
            InvalidRequest: `text` holds half of a surrogate pair, which no encoding can write.
        """
        if self._prepends_space:
            text = self._with_space(text)
        try:
            # The batch call lets other threads run meanwhile; `encode` holds the interpreter.
            [encoding] = self._backend.encode_batch_fast([text], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            raise InvalidRequest("the text is not valid Unicode (a lone surrogate)") from error
        ids: list[int] = encoding.ids
        if add_special_tokens and ids[: len(self._prefix)] != self._prefix:
            return [*self._prefix, *ids]
        return ids

    def _with_space(self, text: str) -> str:
        """The space that SentencePiece puts before a text, here where prose begins: after BOS, and
        not before any other special token, which SentencePiece itself would never see in a text.
        """
        bos = "" if self.bos_id is None else self.id_to_piece(self.bos_id)
        start = len(bos) if text.startswith(bos) else 0
        if start == len(text) or text.startswith(self._special_pieces, start):
            return text
        return f"{text[:start]} {text[start:]}"

    def decode(self, ids: Iterable[int], skip_special_tokens: bool) -> str:
        """The text of `ids`. Bytes that are no UTF-8 become U+FFFD; unknown ids give nothing."""
        data = b"".join(self.visible_bytes(i, skip_special_tokens) for i in ids)
        if self.strips_first_space:
            data = data.removeprefix(b" ")
        return data.decode("utf-8", "replace")

    def visible_bytes(self, token_id: int, skip_special_tokens: bool) -> bytes:
        """`token_bytes`, or nothing for a special token that is to be skipped."""
        if skip_special_tokens and token_id in self.special_ids:
            return b""
        return self.token_bytes(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        """What this token adds to a text; a character may be spread over several tokens."""
        data = self._bytes.get(token_id)
        if data is None:
            piece = self.id_to_piece(token_id)
            data = piece_bytes(piece, self._spelling, is_added=token_id in self._added_ids)
            self._bytes[token_id] = data
        return data

    def id_to_piece(self, token_id: int) -> str:
        """The token as the vocabulary spells it; empty where the id has none."""
        if not 0 <= token_id < self.vocab_size:
            return ""
        return self._backend.id_to_token(token_id) or ""


def load_tokenizer(source: TokenizerSource) -> Tokenizer:
    """Build the tokenizer of a checkpoint.

    Raises:
        CheckpointError: the tables are missing or of a kind that is not known.
    """
    if isinstance(source, GGUFTokenizer):
        return Tokenizer(read_gguf_tokenizer(source.metadata))
    return Tokenizer(read_hub_tokenizer(source.folder))
