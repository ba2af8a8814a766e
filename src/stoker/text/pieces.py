"""What each token stands for in bytes, for the two ways that vocabularies spell text.

Decoding is the concatenation of these bytes, so it works token by token, and a character that is
spread over tokens needs no special case.
"""

from __future__ import annotations

import re
from enum import Enum

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Spelling(Enum):
    BYTE_LEVEL = "byte-level"
    """GPT-2's: every byte is written as one printable character."""
    SENTENCEPIECE = "sentencepiece"
    """Plain text with U+2581 for a space; a byte outside the vocabulary is written <0xNN>."""


def byte_alphabet() -> dict[str, int]:
    """GPT-2's bijection: printable Latin-1 stands for itself, the rest moves to U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    moved = {chr(0x100 + i): byte for i, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | moved


_BYTE_OF = byte_alphabet()


def piece_bytes(piece: str, spelling: Spelling, *, is_added: bool) -> bytes:
    """The bytes that `piece` adds to the text.

    An added token stands for its own characters, except that the byte-level decoder reads it in the
    byte alphabet wherever all of it can be read so (as Hugging Face's does).
    """
    if spelling is Spelling.BYTE_LEVEL:
        if all(char in _BYTE_OF for char in piece):
            return bytes(_BYTE_OF[char] for char in piece)
        return piece.encode("utf-8")
    byte = None if is_added else _BYTE_PIECE.fullmatch(piece)
    if byte is not None:
        return bytes([int(byte[1], 16)])
    return piece.replace("▁", " ").encode("utf-8")
