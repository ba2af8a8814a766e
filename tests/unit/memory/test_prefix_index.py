"""Page keys: everything that KV depends on is in them, and nothing can be mistaken for another."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stoker.core.model import PAGE_SIZE
from stoker.memory.prefix_index import HASH_BYTES, PrefixIndex, page_hash, root_hash

TEXT = st.text(max_size=4)


@given(TEXT, st.none() | TEXT, TEXT, st.none() | TEXT)
def test_roots_are_equal_only_for_equal_domain_and_salt(
    domain: str, salt: str | None, other_domain: str, other_salt: str | None
) -> None:
    same = (domain, salt) == (other_domain, other_salt)
    assert (root_hash(domain, salt) == root_hash(other_domain, other_salt)) == same


def test_fields_cannot_run_into_each_other() -> None:
    texts = ["", "a", "b", "ab", "a\x00b", "\x00", "\x01"]
    pairs = list(itertools.product(texts, [None, *texts]))
    assert len({root_hash(domain, salt) for domain, salt in pairs}) == len(pairs)


def test_a_salt_of_lone_surrogates_is_hashed() -> None:
    assert root_hash("d", "\ud800") != root_hash("d", "\ud801")


def test_a_page_hash_depends_on_parent_and_on_every_token() -> None:
    root = root_hash("d", None)
    page = list(range(PAGE_SIZE))
    seen = {page_hash(root, page), page_hash(root_hash("d", "s"), page)}
    for position in range(PAGE_SIZE):
        seen.add(page_hash(root, [*page[:position], 99, *page[position + 1 :]]))
    assert len(seen) == 2 + PAGE_SIZE
    assert all(len(digest) == HASH_BYTES for digest in seen)


def test_the_index_keeps_the_first_of_equal_pages_and_groups_apart() -> None:
    index = PrefixIndex()
    assert index.add(0, b"k", 3)
    assert not index.add(0, b"k", 4)
    assert index.add(1, b"k", 4)
    assert (index.get(0, b"k"), index.get(1, b"k"), index.get(2, b"k")) == (3, 4, None)
    index.remove(3)
    assert index.get(0, b"k") is None
    assert index.pages() == {4}
