"""The page manager against a model that is too simple to be wrong: who holds what is a plain list.

Tables open, match, grow, commit, free; leases pin; the cache is reset; the pool is small enough
that pages are evicted all the time. The manager's own count must agree with the model's after
every call, and a match must never return a page whose content the model knows to be other tokens.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from stoker.core.model import PAGE_SIZE
from stoker.memory.manager import Lease, MemoryManager
from stoker.memory.table import PageTable
from tests.support.scheduling import layout

Content = tuple[int, str | None, tuple[int, ...]]
"""(group, salt, all tokens up to the page's end)"""


class PagesMachine(RuleBasedStateMachine):
    @initialize(
        windows=st.sampled_from([(None,), (16,), (None, 20), (40, 1, None)]),
        num_pages=st.integers(3, 24),
        caching=st.booleans(),
    )
    def start(self, windows: tuple[Any, ...], num_pages: int, caching: bool) -> None:
        self.windows = windows
        self.memory = MemoryManager(layout(*windows), num_pages, caching, "d")
        self.live: list[tuple[PageTable, list[int], str | None]] = []
        self.leases: list[Lease] = []
        self.content: dict[int, Content] = {}

    @rule(
        length=st.integers(1, 80), start=st.sampled_from([0, 9]), salt=st.sampled_from([None, "s"])
    )
    def open(self, length: int, start: int, salt: str | None) -> None:
        """All prompts are prefixes of two sequences, so that hits are common."""
        tokens = [start + n for n in range(length)]
        table = self.memory.open(tokens, salt)
        found = self.memory.lookup(table, tokens)
        matched = self.memory.match(table, tokens)
        assert matched == found < length and matched % PAGE_SIZE == 0
        for group, window in enumerate(self.windows):
            for logical, page in enumerate(table.pages[group]):
                end = (logical + 1) * PAGE_SIZE
                assert (page < 0) == (window is not None and end - 1 <= matched - window)
                assert page < 0 or self.content[page] == (group, salt, tuple(tokens[:end]))
        self.live.append((table, tokens, salt))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), chunk=st.integers(1, 40))
    def compute(self, data: st.DataObject, chunk: int) -> None:
        """Allocate for the next chunk and commit it, as the scheduler does."""
        table, tokens, salt = data.draw(st.sampled_from(self.live))
        end = min(len(tokens), table.num_computed + chunk)
        before = self.memory.stats
        lengths = [len(pages) for pages in table.pages]
        if not self.memory.allocate(table, end):
            assert self.memory.stats == before
            assert [len(pages) for pages in table.pages] == lengths
            return
        for group, pages in enumerate(table.pages):
            for logical in range(lengths[group], len(pages)):
                prefix = tuple(tokens[: (logical + 1) * PAGE_SIZE])
                self.content[pages[logical]] = (group, salt, prefix)
        self.memory.commit(table, tokens, end)
        for group, window in enumerate(self.windows):
            for logical, page in enumerate(table.pages[group]):
                last = (logical + 1) * PAGE_SIZE - 1
                assert (page < 0) == (window is not None and last <= end - window)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), twice=st.booleans())
    def free(self, data: st.DataObject, twice: bool) -> None:
        entry = data.draw(st.sampled_from(self.live))
        self.live.remove(entry)
        for _ in range(1 + twice):
            self.memory.free(entry[0])

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def lease(self, data: st.DataObject) -> None:
        table, _, _ = data.draw(st.sampled_from(self.live))
        held = [page for pages in table.pages for page in pages if page >= 0]
        self.leases.append(self.memory.lease(held))

    @precondition(lambda self: self.leases)
    @rule()
    def release(self) -> None:
        self.memory.release(self.leases.pop())

    @rule()
    def reset(self) -> None:
        self.memory.reset_prefix_cache()
        assert self.memory.stats.cached == 0

    @invariant()
    def every_page_is_counted_once(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.memory.check_integrity()
        stats = self.memory.stats
        held = {p for table, _, _ in self.live for pages in table.pages for p in pages if p >= 0}
        leased = {page for lease in self.leases for page in lease.pages} - held
        assert (stats.held, stats.leased) == (len(held), len(leased))
        assert stats.free + stats.cached + stats.held + stats.leased == stats.total


PagesMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestPages = PagesMachine.TestCase
