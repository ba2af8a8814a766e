"""Which physical page holds the KV of which tokens, for pages that are complete.

A page's key is a hash of everything its KV depends on: the domain (model revision, KV dtype and
layout), the tenant's salt, and every token from the first to the page's last. Hashes are chained:

    root = H(domain, salt)     page 0 = H(root, tokens 0..15)     page 1 = H(page 0, tokens 16..31)

128 bits of BLAKE2b: nobody can build two prefixes of one key, so a hit needs no token comparison.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from stoker.core.model import PAGE_SIZE

HASH_BYTES = 16

_PAGE = struct.Struct(f"<{PAGE_SIZE}I")


def root_hash(domain: str, salt: str | None) -> bytes:
    """Start of a chain. Fields are length-prefixed, and no salt differs from every salt."""
    hasher = hashlib.blake2b(digest_size=HASH_BYTES, person=b"stoker.root")
    for field in (domain, salt):
        if field is None:
            hasher.update(b"\x00")
        else:
            # A client's text may hold lone surrogates (JSON allows them); they are content too.
            data = field.encode("utf-8", "surrogatepass")
            hasher.update(b"\x01" + len(data).to_bytes(8, "little") + data)
    return hasher.digest()


def page_hash(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """Hash of one full page of PAGE_SIZE token ids after the prefix that `parent` names."""
    hasher = hashlib.blake2b(parent, digest_size=HASH_BYTES, person=b"stoker.page")
    hasher.update(_PAGE.pack(*token_ids))
    return hasher.digest()


class PrefixIndex:
    """(KV group, page hash) → physical page; one page a key, one key a page."""

    def __init__(self) -> None:
        self._page_of: dict[tuple[int, bytes], int] = {}
        self._key_of: dict[int, tuple[int, bytes]] = {}

    def get(self, group: int, digest: bytes) -> int | None:
        return self._page_of.get((group, digest))

    def add(self, group: int, digest: bytes, page: int) -> bool:
        """False, and nothing changes, when an equal page is already there."""
        key = (group, digest)
        if key in self._page_of:
            return False
        self._page_of[key] = page
        self._key_of[page] = key
        return True

    def remove(self, page: int) -> None:
        del self._page_of[self._key_of.pop(page)]

    def pages(self) -> set[int]:
        return set(self._key_of)
