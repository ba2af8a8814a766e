"""The pool: states, counts and the order of eviction."""

from __future__ import annotations

import pytest

from stoker.memory.pool import PageAccountingError, PagePool, PageState


def counts(pool: PagePool) -> dict[str, int]:
    return {state.value: pool.count(state) for state in PageState}


def test_a_page_walks_through_all_states() -> None:
    pool = PagePool(2, lambda page: None)
    page = pool.take()
    assert counts(pool) == {"free": 1, "cached": 0, "held": 1, "leased": 0}
    pool.index(page)
    pool.pin(page)
    assert pool.state(page) is PageState.HELD  # held and leased counts as held
    pool.drop(page)
    assert counts(pool) == {"free": 1, "cached": 0, "held": 0, "leased": 1}
    pool.unpin(page)
    assert counts(pool) == {"free": 1, "cached": 1, "held": 0, "leased": 0}
    pool.unindex(page)
    assert counts(pool) == {"free": 2, "cached": 0, "held": 0, "leased": 0}


def test_free_pages_go_before_cached_ones_and_the_oldest_cached_goes_first() -> None:
    evicted: list[int] = []
    pool = PagePool(3, evicted.append)
    pages = [pool.take() for _ in range(3)]
    for page in pages:
        pool.index(page)
    for page in (pages[1], pages[0]):
        pool.drop(page)
    pool.hold(pages[1])
    pool.drop(pages[1])  # used again: now younger than pages[0]
    pool.unindex(pages[2])
    pool.drop(pages[2])
    assert [pool.take() for _ in range(3)] == [pages[2], pages[0], pages[1]]
    assert evicted == [pages[0], pages[1]]


def test_leased_pages_are_never_taken() -> None:
    pool = PagePool(1, lambda page: None)
    page = pool.take()
    pool.pin(page)
    pool.drop(page)
    assert pool.num_available == 0
    with pytest.raises(PageAccountingError):
        pool.take()


@pytest.mark.parametrize("call", ["hold", "drop", "pin", "unpin", "index"])
def test_a_free_page_cannot_change(call: str) -> None:
    pool = PagePool(1, lambda page: None)
    with pytest.raises(PageAccountingError):
        getattr(pool, call)(0)
    assert counts(pool)["free"] == 1


def test_a_page_cannot_be_dropped_twice() -> None:
    pool = PagePool(1, lambda page: None)
    page = pool.take()
    pool.index(page)
    pool.drop(page)
    with pytest.raises(PageAccountingError, match="0 references"):
        pool.drop(page)


def test_check_names_the_page_whose_count_is_wrong() -> None:
    pool = PagePool(2, lambda page: None)
    page = pool.take()
    refs = [0, 0]
    refs[page] = 1
    pool.check(refs, [0, 0], set())
    with pytest.raises(PageAccountingError, match=f"page {page} "):
        pool.check([0, 0], [0, 0], set())
