"""The pages of one sequence. Only `memory.manager` changes a table."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class PageTable:
    """Logical page i holds tokens [16 i, 16 i + 16); per KV group it lies in a physical page.

    tokens   |<------- num_computed ------->|<-- allocated -->|
    windowed | -1 | -1 | page | page | page | page | page     |
    full     | page .................. page | page | page     |
    """

    root: bytes
    """Where this sequence's chain of page hashes starts."""
    pages: tuple[array[int], ...]
    """Per group: physical page of logical page i, -1 once no later position can see it. int32,
    which a runner copies as it is: a list would cost a step 18 µs for every 512 pages."""
    hashes: list[bytes] = field(default_factory=list)
    """Of the full pages of known tokens seen so far; they outlive `free`, tokens do not change."""
    num_computed: int = 0
    """Tokens whose KV is in the pages."""
    num_published: int = 0
    """Tokens of the full pages that were offered to the prefix index."""
    num_queried: int = 0
    """Tokens looked up by the last match, until a commit has counted them."""
    num_matched: int = 0
    """Tokens that the last match took from the index."""
    is_counted: bool = False
    """This sequence's first use of the index is in the statistics; a recompute is not a hit."""
