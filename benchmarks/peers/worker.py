"""The frame of a worker: arguments in, some cells timed, one line of JSON out.

A worker is an engine in Python in a process of its own. It answers with two numbers: how long a
prompt takes, and how long a batch takes to decode.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from benchmarks.peers.cells import BATCHES, PROMPTS, SHORT_PROMPT, Sizes

FIRST_ID = 300
"""Prompts draw ids from here up: below are special tokens and single bytes."""
WARM_UP_TOKENS = 4

Prompt = list[int]


class Timed(Protocol):
    """An engine that is loaded."""

    vocab_size: int

    def prefill_s(self, prompt: Prompt) -> float:
        """Seconds from a prompt to its first token."""

    def decode_s(self, prompts: list[Prompt], new_tokens: int) -> float:
        """Seconds for `new_tokens` more tokens of every sequence after its first."""


def main(load: Callable[[Path, Sizes], Timed]) -> None:
    """`FILE CELLS THREADS STEPS REPEATS` on the command line, as `engines.run_worker` has them."""
    file, cells, threads, steps, repeats = sys.argv[1:]
    sizes = Sizes(int(threads), int(steps), int(repeats))
    engine = load(Path(file), sizes)
    time = {**dict.fromkeys(PROMPTS, _prefill), **dict.fromkeys(BATCHES, _decode)}
    speeds = {cell: time[cell](engine, cell, sizes) for cell in cells.split(",")}
    print(json.dumps(speeds), flush=True)


def _prefill(engine: Timed, cell: str, sizes: Sizes) -> float:
    length = PROMPTS[cell]
    if length > min(PROMPTS.values()):  # comes last, and is its own warm-up for the most part
        return length / engine.prefill_s(_prompt(engine, length))
    engine.prefill_s(_prompt(engine, length))
    seconds = sum(engine.prefill_s(_prompt(engine, length)) for _ in range(sizes.repeats))
    return sizes.repeats * length / seconds


def _decode(engine: Timed, cell: str, sizes: Sizes) -> float:
    """The first steps at a new batch size find cold buffers; llama.cpp allocates them at load."""
    batch, new_tokens = BATCHES[cell], sizes.new_tokens(cell)
    engine.decode_s(_prompts(engine, batch), WARM_UP_TOKENS)
    return batch * new_tokens / engine.decode_s(_prompts(engine, batch), new_tokens)


def _prompts(engine: Timed, batch: int) -> list[Prompt]:
    return [_prompt(engine, SHORT_PROMPT) for _ in range(batch)]


def _prompt(engine: Timed, length: int) -> Prompt:
    """Random ids: no two prompts share a prefix, so no cache can help."""
    return [random.randrange(FIRST_ID, engine.vocab_size) for _ in range(length)]
