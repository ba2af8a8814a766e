"""The only door to the KV pages: match, allocate, commit, free, lease.

The manager knows tokens and groups but no requests, priorities or tensors. One rule covers full
and windowed groups: a full group is a group whose window never ends. A position p of a group with
window w sees positions > p - w, so once p is the next to compute, page i is needed only if
16 i + 15 > p - w; `_first_page` says which page that is.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.core.model import PAGE_SIZE, KVLayout
from stoker.memory.pool import PageAccountingError, PagePool, PageState
from stoker.memory.prefix_index import PrefixIndex, page_hash, root_hash
from stoker.memory.table import PageTable


@dataclass(frozen=True, slots=True)
class Lease:
    """A pin on pages: they keep their content until the lease is released."""

    id: int
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """Pages by state (they add up to `total`) and prefix lookups in tokens."""

    free: int
    cached: int
    held: int
    leased: int
    total: int
    queries: int
    hits: int


class MemoryManager:
    """One pool of pages for all KV groups, and the prefix index over it."""

    def __init__(self, layout: KVLayout, num_pages: int, prefix_caching: bool, domain: str) -> None:
        """`domain` names what KV depends on besides tokens: revision, KV dtype, layout."""
        self._windows = tuple(group.window for group in layout.groups)
        self._layout = layout
        self._domain = domain
        self._caching = prefix_caching
        self._index = PrefixIndex()
        self._pool = PagePool(num_pages, self._index.remove)
        self._tables: set[PageTable] = set()
        self._leases: dict[int, Lease] = {}
        self._lease_ids = itertools.count()
        self._queries = 0
        self._hits = 0

    def open(self, token_ids: Sequence[int], salt: str | None) -> PageTable:
        """A table without pages for a sequence that starts with these tokens."""
        table = PageTable(root_hash(self._domain, salt), self._no_pages())
        self._hash(table, token_ids, len(token_ids))
        return table

    def lookup(self, table: PageTable, token_ids: Sequence[int], most: int | None = None) -> int:
        """Tokens that `match` would take now, in whole pages; no more than `most`. Changes no page.

        At least the last known token stays to be computed: its logits are what a step is for.
        """
        if not self._caching:
            return 0
        limit = len(token_ids) - 1
        limit = (limit if most is None else min(limit, most)) // PAGE_SIZE
        self._hash(table, token_ids, limit * PAGE_SIZE)
        best = 0
        runs = [0] * len(self._windows)  # per group: indexed pages in a row, ending at page n - 1
        for n in range(1, limit + 1):
            fits = True
            for group, window in enumerate(self._windows):
                found = self._index.get(group, table.hashes[n - 1]) is not None
                runs[group] = runs[group] + 1 if found else 0
                if not found and window is None:
                    return best * PAGE_SIZE
                fits = fits and runs[group] >= n - _first_page(n * PAGE_SIZE, window)
            if fits:
                best = n
        return best * PAGE_SIZE

    def match(self, table: PageTable, token_ids: Sequence[int], most: int | None = None) -> int:
        """Take the longest cached prefix of at most `most` tokens into an empty table; returns its
        tokens."""
        if table in self._tables:
            raise PageAccountingError("a table that already has pages cannot match a prefix")
        num_tokens = self.lookup(table, token_ids, most)
        for group, window in enumerate(self._windows):
            first = _first_page(num_tokens, window)
            table.pages[group].extend(itertools.repeat(-1, first))
            for digest in table.hashes[first : num_tokens // PAGE_SIZE]:
                page = self._index.get(group, digest)
                if page is None:
                    raise PageAccountingError("the prefix index lost a page that it just named")
                self._pool.hold(page)
                table.pages[group].append(page)
        table.num_computed = table.num_published = table.num_matched = num_tokens
        table.num_queried = len(token_ids) if self._caching and most != 0 else 0
        self._tables.add(table)
        return num_tokens

    def num_held(self, table: PageTable) -> int:
        """Physical pages that this table refers to, shared ones included."""
        return sum(page >= 0 for pages in table.pages for page in pages)

    def can_hold(self, table: PageTable, num_tokens: int, chunk: int, spare: int = 0) -> bool:
        """Whether pages for all of `num_tokens`, `chunk` a step, are there now, or would be if
        others gave back `spare` pages. Asked before a sequence starts, so that it does not begin
        what it cannot end.
        """
        missing = self._layout.pages_needed(num_tokens, chunk) - self.num_held(table)
        return missing <= self._pool.num_available + spare

    def allocate(self, table: PageTable, num_tokens: int) -> bool:
        """Pages for positions [num_computed, num_tokens) in every group, or none at all."""
        wanted = -(-num_tokens // PAGE_SIZE)
        missing = sum(max(0, wanted - len(pages)) for pages in table.pages)
        if missing > self._pool.num_available:
            return False
        self._tables.add(table)
        # A page out of every window is -1 already: commit drops it, match never takes it.
        for pages in table.pages:
            for _ in range(len(pages), wanted):
                pages.append(self._pool.take())
        return True

    def commit(self, table: PageTable, token_ids: Sequence[int], num_computed: int) -> None:
        """The KV of the first `num_computed` of `token_ids` is in the pages: publish, then drop.

        Full pages go to the index. Where an equal page is there already (two sequences computed
        the same tokens at once), this one stays out of it and will be free, not cached.
        """
        table.num_computed = num_computed
        if self._caching:
            self._publish(table, token_ids)
            if not table.is_counted:
                table.is_counted = True
                self._queries += table.num_queried
                self._hits += table.num_matched
        for group, window in enumerate(self._windows):
            pages = table.pages[group]
            for logical in range(_first_page(num_computed, window) - 1, -1, -1):
                if pages[logical] < 0:
                    break
                self._pool.drop(pages[logical])
                pages[logical] = -1

    def free(self, table: PageTable) -> None:
        """Give all pages back, last page first: a leaf is evicted before what leads to it.

        A second call does nothing. The table can match and allocate again.
        """
        self._tables.discard(table)
        longest = max(len(pages) for pages in table.pages)
        for logical in range(longest - 1, -1, -1):
            for pages in table.pages:
                if logical < len(pages) and pages[logical] >= 0:
                    self._pool.drop(pages[logical])
        table.pages = self._no_pages()  # new ones: a plan may still show the old ones
        table.num_computed = table.num_published = 0

    def page_tables(self, table: PageTable) -> tuple[Sequence[int], ...]:
        """Per group, for a plan. Live arrays: read them only until the step is committed."""
        return table.pages

    def lease(self, pages: Iterable[int]) -> Lease:
        """Pin pages that have content (held, cached or leased). Release it when done."""
        lease = Lease(next(self._lease_ids), tuple(pages))
        for count, page in enumerate(lease.pages):
            if self._pool.state(page) is PageState.FREE:
                for pinned in lease.pages[:count]:
                    self._pool.unpin(pinned)
                raise PageAccountingError(f"page {page} is free: there is nothing to lease")
            self._pool.pin(page)
        self._leases[lease.id] = lease
        return lease

    def release(self, lease: Lease) -> None:
        """Undo `lease`; raises PageAccountingError for one that was released before."""
        if self._leases.pop(lease.id, None) is None:
            raise PageAccountingError(f"lease {lease.id} is not held")
        for page in reversed(lease.pages):
            self._pool.unpin(page)

    def reset_prefix_cache(self) -> None:
        """Forget every published page; pages that nobody holds or leases become free."""
        for page in self._index.pages():
            self._index.remove(page)
            self._pool.unindex(page)

    @property
    def stats(self) -> MemoryStats:
        return MemoryStats(
            free=self._pool.count(PageState.FREE),
            cached=self._pool.count(PageState.CACHED),
            held=self._pool.count(PageState.HELD),
            leased=self._pool.count(PageState.LEASED),
            total=self._pool.num_pages,
            queries=self._queries,
            hits=self._hits,
        )

    def check_integrity(self) -> None:
        """Count every page anew from tables, leases and index. O(pages); for tests and idle time.

        Raises:
            PageAccountingError: names the page and both counts.
        """
        refs, pins = [0] * self._pool.num_pages, [0] * self._pool.num_pages
        for table in self._tables:
            for page in itertools.chain.from_iterable(table.pages):
                if page >= 0:
                    refs[page] += 1
        for lease in self._leases.values():
            for page in lease.pages:
                pins[page] += 1
        self._pool.check(refs, pins, self._index.pages())

    def _no_pages(self) -> tuple[array[int], ...]:
        return tuple(array("i") for _ in self._windows)

    def _hash(self, table: PageTable, token_ids: Sequence[int], num_tokens: int) -> None:
        """Have the hashes of the full pages of the first `num_tokens`; each is computed once."""
        if not self._caching:
            return
        for logical in range(len(table.hashes), num_tokens // PAGE_SIZE):
            parent = table.hashes[-1] if table.hashes else table.root
            start = logical * PAGE_SIZE
            table.hashes.append(page_hash(parent, token_ids[start : start + PAGE_SIZE]))

    def _publish(self, table: PageTable, token_ids: Sequence[int]) -> None:
        full = table.num_computed // PAGE_SIZE
        self._hash(table, token_ids, full * PAGE_SIZE)
        for logical in range(table.num_published // PAGE_SIZE, full):
            for group, pages in enumerate(table.pages):
                page = pages[logical]
                if page >= 0 and self._index.add(group, table.hashes[logical], page):
                    self._pool.index(page)
        table.num_published = full * PAGE_SIZE


def _first_page(position: int, window: int | None) -> int:
    """First logical page that `position` or a later one can see."""
    return 0 if window is None else max(0, position - window + 1) // PAGE_SIZE
