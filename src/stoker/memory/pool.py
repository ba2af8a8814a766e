"""The physical pages of the one KV pool: who counts on a page, and which page goes next.

Pages are numbers; this module knows nothing of tokens, hashes, groups or tensors.

Every page is in exactly one state, by the first rule that applies:

    held     at least one sequence refers to it
    leased   no sequence does, but a lease pins it
    cached   neither, but the prefix index names it: it can be evicted, oldest release first
    free     none of these

so `free + cached + held + leased == total`, and a page that is both held and leased counts as held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from stoker.core.errors import StokerError


class PageAccountingError(StokerError):
    """The page books contradict themselves: a bug of ours, never of a client."""

    default_code = "page_accounting"


class PageState(Enum):
    FREE = "free"
    CACHED = "cached"
    HELD = "held"
    LEASED = "leased"


class PagePool:
    """Reference counts, pins and the order of eviction; every call is O(1) a page."""

    def __init__(self, num_pages: int, on_evict: Callable[[int], None]) -> None:
        """`on_evict(page)` tells the owner of the index that a cached page lost its content."""
        self._on_evict = on_evict
        self._refs = [0] * num_pages
        self._pins = [0] * num_pages
        self._indexed = [False] * num_pages
        self._free = list(range(num_pages - 1, -1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._counts = dict.fromkeys(PageState, 0)
        self._counts[PageState.FREE] = num_pages

    @property
    def num_pages(self) -> int:
        return len(self._refs)

    @property
    def num_available(self) -> int:
        """Pages that `take` could hand out now."""
        return len(self._free) + len(self._cached)

    def count(self, state: PageState) -> int:
        return self._counts[state]

    def state(self, page: int) -> PageState:
        if self._refs[page]:
            return PageState.HELD
        if self._pins[page]:
            return PageState.LEASED
        return PageState.CACHED if self._indexed[page] else PageState.FREE

    def take(self) -> int:
        """A page of undefined content, held once: a free one, else the longest unused cached one.

        Raises:
            PageAccountingError: none is available; ask `num_available` first.
        """
        if not self._free:
            if not self._cached:
                raise PageAccountingError("no page is free or cached, yet one was taken")
            oldest = next(iter(self._cached))
            self._on_evict(oldest)
            self.unindex(oldest)
        page = self._free.pop()
        self._counts[PageState.FREE] -= 1
        self._refs[page] = 1
        self._counts[PageState.HELD] += 1
        return page

    def hold(self, page: int) -> None:
        """One more sequence refers to a page that still has its content."""
        self._change(page, self._refs, 1)

    def drop(self, page: int) -> None:
        """One sequence less. The last one leaves the page cached if indexed, else free."""
        self._change(page, self._refs, -1)

    def pin(self, page: int) -> None:
        self._change(page, self._pins, 1)

    def unpin(self, page: int) -> None:
        self._change(page, self._pins, -1)

    def index(self, page: int) -> None:
        """The prefix index now names this held page."""
        if self.state(page) is not PageState.HELD:
            raise PageAccountingError(f"page {page} is {self.state(page).value}, cannot be indexed")
        self._indexed[page] = True

    def unindex(self, page: int) -> None:
        """The prefix index forgot this page."""
        before = self.state(page)
        self._indexed[page] = False
        self._move(page, before)

    def _change(self, page: int, counter: list[int], by: int) -> None:
        before = self.state(page)
        if before is PageState.FREE or counter[page] + by < 0:
            raise PageAccountingError(
                f"page {page} is {before.value} with {self._refs[page]} references and "
                f"{self._pins[page]} pins: a count cannot change by {by}"
            )
        counter[page] += by
        self._move(page, before)

    def _move(self, page: int, before: PageState) -> None:
        """Put a page whose counts changed where its state belongs."""
        after = self.state(page)
        if after is before:
            return
        self._counts[before] -= 1
        self._counts[after] += 1
        if before is PageState.CACHED:
            del self._cached[page]
        if after is PageState.CACHED:
            self._cached[page] = None
        elif after is PageState.FREE:
            self._free.append(page)

    def check(self, refs: list[int], pins: list[int], indexed: set[int]) -> None:
        """Compare with counts taken from the owners. Raises PageAccountingError with the page."""
        free, states = set(self._free), dict.fromkeys(PageState, 0)
        for page in range(self.num_pages):
            state = self.state(page)
            states[state] += 1
            found = (self._refs[page], self._pins[page], self._indexed[page])
            wanted = (refs[page], pins[page], page in indexed)
            if found != wanted:
                raise PageAccountingError(
                    f"page {page} has (references, pins, indexed) {found}, owners say {wanted}"
                )
            listed = (page in free, page in self._cached)
            if listed != (state is PageState.FREE, state is PageState.CACHED):
                raise PageAccountingError(f"page {page} is {state.value}, but is listed {listed}")
        if states != self._counts or len(free) != len(self._free):
            raise PageAccountingError(f"pages by state are {states}, counters say {self._counts}")
