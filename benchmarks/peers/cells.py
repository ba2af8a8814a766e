"""What is timed: the cells of the table and the sizes behind them.

Every engine times the same cells and answers with tokens per second for each. Knows no engine.
"""

from __future__ import annotations

from dataclasses import dataclass

PROMPTS = {"prefill": 512, "prefill_4k": 4096}
"""Cell → prompt tokens of one sequence."""

BATCHES = {"decode1": 1, "decode4": 4, "decode8": 8, "decode16": 16, "decode32": 32}
"""Cell → sequences that decode together."""

CELLS = (*PROMPTS, *BATCHES)

SHORT_PROMPT = 16
"""Tokens before the first decoded one, in every sequence of a decode cell."""

GROUPS = ("prefill", "decode")
"""Cells that an engine times in one process; engines take turns after each group."""

Speeds = dict[str, float]
"""Cell → tokens per second."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the command line may change about the cells."""

    threads: int = 2
    new_tokens: int = 64
    """Decoded in each sequence of a decode cell."""

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence in any cell, with room for one more page."""
        return max(max(PROMPTS.values()), SHORT_PROMPT + self.new_tokens) + 16
