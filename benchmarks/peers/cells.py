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

SERVER_CELLS = ("throughput", "ttft_p50", "ttft_p90")
"""Output tokens per second of a server under load, and seconds to a turn's first token."""

SHORT_PROMPT = 16
"""Tokens before the first decoded one, in every sequence of a decode cell."""

LARGE_BATCH = 8
"""From here on a step takes long enough to be timed in a quarter of the steps."""

Speeds = dict[str, float]
"""Cell → tokens per second."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long a cell is timed: the same for every engine on a model."""

    threads: int = 2
    steps: int = 64
    """Decoded tokens of each sequence in a small batch; a large batch gets a quarter."""
    repeats: int = 1
    """Times that the short prompt is timed, after one warm-up; the long one is timed once."""

    def new_tokens(self, cell: str) -> int:
        """Tokens that each sequence of a decode cell gets while it is timed."""
        return self.steps if BATCHES[cell] < LARGE_BATCH else max(self.steps // 4, 1)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence in any cell, with room for one more page."""
        return max(max(PROMPTS.values()), SHORT_PROMPT + self.steps) + 16
