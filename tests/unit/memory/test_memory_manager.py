"""The manager: prefixes, windows, publishing, leases; every number here is counted by hand."""

from __future__ import annotations

import pytest

from stoker.core.model import PAGE_SIZE
from stoker.memory.manager import MemoryManager
from stoker.memory.pool import PageAccountingError
from stoker.memory.table import PageTable
from tests.support.scheduling import layout


def manager(*windows: int | None, num_pages: int = 32, caching: bool = True) -> MemoryManager:
    return MemoryManager(layout(*windows), num_pages, caching, "model/bf16")


def compute(memory: MemoryManager, tokens: list[int], salt: str | None = None) -> PageTable:
    """Open, match, allocate and commit in one step."""
    table = memory.open(tokens, salt)
    memory.match(table, tokens)
    assert memory.allocate(table, len(tokens))
    memory.commit(table, tokens, len(tokens))
    memory.check_integrity()
    return table


def pages(memory: MemoryManager) -> tuple[int, int, int, int]:
    stats = memory.stats
    return stats.free, stats.cached, stats.held, stats.leased


def test_the_last_known_token_is_never_a_hit() -> None:
    memory = manager(None)
    tokens = list(range(2 * PAGE_SIZE))
    memory.free(compute(memory, tokens))
    assert memory.lookup(memory.open(tokens, None), tokens) == PAGE_SIZE
    longer = [*tokens, 1]
    assert memory.lookup(memory.open(longer, None), longer) == 2 * PAGE_SIZE


def test_only_full_pages_are_published() -> None:
    memory = manager(None)
    memory.free(compute(memory, list(range(2 * PAGE_SIZE - 1))))
    assert pages(memory) == (31, 1, 0, 0)


def test_a_prefix_is_shared_by_reference() -> None:
    memory = manager(None)
    tokens = list(range(40))
    first, second = compute(memory, tokens), compute(memory, tokens)
    assert first.pages[0][:2] == second.pages[0][:2]
    assert first.pages[0][2] != second.pages[0][2]
    assert pages(memory) == (28, 0, 4, 0)
    memory.free(first)
    memory.free(second)
    assert pages(memory) == (30, 2, 0, 0)


def test_a_second_free_does_nothing() -> None:
    memory = manager(None)
    table = compute(memory, list(range(40)))
    memory.free(table)
    memory.free(table)
    assert pages(memory) == (30, 2, 0, 0)
    memory.check_integrity()


@pytest.mark.parametrize(
    "salts", [(None, "a"), ("a", None), ("a", "b"), (None, ""), (None, "model/bf16")]
)
def test_no_page_crosses_a_salt(salts: tuple[str | None, str | None]) -> None:
    memory = manager(None)
    tokens = list(range(40))
    memory.free(compute(memory, tokens, salts[0]))
    assert memory.lookup(memory.open(tokens, salts[1]), tokens) == 0
    assert memory.lookup(memory.open(tokens, salts[0]), tokens) == 32


def test_allocation_is_all_or_nothing() -> None:
    memory = manager(None, 64, num_pages=5)
    table = memory.open([1] * 48, None)
    memory.match(table, [1] * 48)
    assert not memory.allocate(table, 48)  # 3 pages in each of 2 groups
    assert pages(memory) == (5, 0, 0, 0)
    assert memory.allocate(table, 32)
    assert pages(memory) == (1, 0, 4, 0)
    memory.check_integrity()


def test_a_windowed_group_gives_back_what_no_later_position_sees() -> None:
    memory = manager(None, 16)
    tokens = list(range(48))
    table = memory.open(tokens, None)
    memory.match(table, tokens)
    assert memory.allocate(table, 48)
    memory.commit(table, tokens, 47)
    # Position 47 sees 32..47: pages 0 and 1 are out of sight, and cached.
    assert [page >= 0 for page in table.pages[1]] == [False, False, True]
    assert all(page >= 0 for page in table.pages[0])
    memory.check_integrity()
    assert pages(memory) == (26, 2, 4, 0)


def test_a_windowed_group_keeps_the_page_that_the_oldest_visible_position_is_in() -> None:
    memory = manager(17)
    tokens = list(range(49))
    table = memory.open(tokens, None)
    memory.match(table, tokens)
    assert memory.allocate(table, 49)
    memory.commit(table, tokens, 47)  # 47 sees 31..47, and 31 is in page 1
    assert [page >= 0 for page in table.pages[0]] == [False, True, True, True]
    memory.commit(table, tokens, 48)  # 48 sees 32..48
    assert [page >= 0 for page in table.pages[0]] == [False, False, True, True]


def test_a_windowed_prefix_needs_only_the_pages_in_sight() -> None:
    memory = manager(None, 20, num_pages=16)
    tokens = list(range(6 * PAGE_SIZE + 1))
    table = compute(memory, tokens)
    memory.free(table)
    again = memory.open(tokens, None)
    assert memory.match(again, tokens) == 96
    # Position 96 sees 77..96: of the windowed group only pages 4 and 5 are taken.
    assert [page >= 0 for page in again.pages[1]] == [False] * 4 + [True] * 2
    assert all(page >= 0 for page in again.pages[0])
    memory.check_integrity()


def test_a_shorter_prefix_is_taken_where_a_window_has_lost_a_page() -> None:
    memory = manager(None, 40, num_pages=15)
    tokens = list(range(6 * PAGE_SIZE + 1))
    table = memory.open(tokens, None)
    memory.match(table, tokens)
    memory.allocate(table, len(tokens))
    lost = table.pages[1][3]
    lease = memory.lease([p for pages in table.pages for p in pages[:6] if p != lost])
    memory.commit(table, tokens, len(tokens))
    memory.free(table)
    filler = memory.open([49] * 32, None)
    assert memory.allocate(filler, 32)  # the 3 free pages and the only one that is not pinned
    # 64 sees 25..64 and 96 sees 57..96, so n = 4, 5, 6 need page 3; 48 sees 9..48: n = 3 does not.
    assert memory.lookup(memory.open(tokens, None), tokens) == 3 * PAGE_SIZE
    memory.release(lease)
    memory.check_integrity()


def test_equal_pages_computed_at_once_are_indexed_once() -> None:
    memory = manager(None)
    tokens = list(range(17))
    tables = [memory.open(tokens, None) for _ in range(2)]
    for table in tables:
        memory.match(table, tokens)
        memory.allocate(table, 17)
    for table in tables:
        memory.commit(table, tokens, 17)
    for table in tables:
        memory.free(table)
    memory.check_integrity()
    assert pages(memory) == (31, 1, 0, 0)


def test_leaves_are_evicted_before_their_parents() -> None:
    memory = manager(None, num_pages=4)
    tokens = list(range(65))
    table = memory.open(tokens, None)
    memory.allocate(table, 64)
    memory.commit(table, tokens, 64)
    memory.free(table)
    other = memory.open([49] * 16, None)
    memory.allocate(other, 16)
    assert memory.lookup(memory.open(tokens, None), tokens) == 48


def test_without_prefix_caching_nothing_is_hashed_or_kept() -> None:
    memory = manager(None, caching=False)
    tokens = list(range(40))
    table = compute(memory, tokens)
    assert table.hashes == []
    memory.free(table)
    assert pages(memory) == (32, 0, 0, 0)
    assert memory.lookup(memory.open(tokens, None), tokens) == 0
    assert (memory.stats.queries, memory.stats.hits) == (0, 0)


def test_lookups_count_once_a_sequence_and_a_recompute_is_no_hit() -> None:
    memory = manager(None)
    tokens = list(range(40))
    table = compute(memory, tokens)
    assert (memory.stats.queries, memory.stats.hits) == (40, 0)
    memory.free(table)  # preempted: it finds its own pages again
    assert memory.match(table, tokens) == 32
    memory.allocate(table, 40)
    memory.commit(table, tokens, 40)
    assert (memory.stats.queries, memory.stats.hits) == (40, 0)
    compute(memory, tokens)
    assert (memory.stats.queries, memory.stats.hits) == (80, 32)


def test_a_lease_outlives_its_sequence_and_keeps_content() -> None:
    memory = manager(None, num_pages=3)
    tokens = list(range(40))
    table = compute(memory, tokens)
    lease = memory.lease(table.pages[0])
    memory.free(table)
    assert pages(memory) == (0, 0, 0, 3)
    memory.check_integrity()
    other = memory.open([1], None)
    assert not memory.allocate(other, 1)
    memory.release(lease)
    assert pages(memory) == (1, 2, 0, 0)
    with pytest.raises(PageAccountingError):
        memory.release(lease)


def test_leasing_a_free_page_is_refused_and_pins_nothing() -> None:
    memory = manager(None, num_pages=3)
    table = compute(memory, [1] * 16)
    with pytest.raises(PageAccountingError, match="free"):
        memory.lease([table.pages[0][0], next(p for p in range(3) if p != table.pages[0][0])])
    memory.free(table)
    memory.check_integrity()
    assert pages(memory) == (2, 1, 0, 0)


def test_a_reset_forgets_cached_held_and_leased_pages() -> None:
    memory = manager(None)
    tokens, others = list(range(40)), [3] * 33
    memory.free(compute(memory, tokens))
    table = compute(memory, others)
    lease = memory.lease(table.pages[0][:1])
    memory.reset_prefix_cache()
    memory.check_integrity()
    assert pages(memory) == (29, 0, 3, 0)
    assert memory.lookup(memory.open(others, None), others) == 0
    memory.free(table)
    assert pages(memory) == (31, 0, 0, 1)
    memory.release(lease)
    assert pages(memory) == (32, 0, 0, 0)


def test_integrity_notices_a_lost_page() -> None:
    memory = manager(None)
    table = compute(memory, list(range(40)))
    table.pages[0].pop()
    with pytest.raises(PageAccountingError, match="owners say"):
        memory.check_integrity()
