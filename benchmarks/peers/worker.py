"""The frame of a worker: arguments in, one group of cells timed, one line of JSON out.

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

from benchmarks.peers.cells import BATCHES, PROMPTS, SHORT_PROMPT, Sizes, Speeds

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
    """`FILE GROUP THREADS NEW_TOKENS` on the command line, as `engines.run_worker` gives them."""
    file, group, threads, new_tokens = sys.argv[1:]
    sizes = Sizes(int(threads), int(new_tokens))
    engine = load(Path(file), sizes)
    speeds = _prefill(engine) if group == "prefill" else _decode(engine, sizes.new_tokens)
    print(json.dumps(speeds), flush=True)


def _prefill(engine: Timed) -> Speeds:
    engine.prefill_s(_prompt(engine, min(PROMPTS.values())))
    return {cell: n / engine.prefill_s(_prompt(engine, n)) for cell, n in PROMPTS.items()}


def _decode(engine: Timed, new_tokens: int) -> Speeds:
    speeds = {}
    for cell, batch in BATCHES.items():
        # The first steps at a new batch size find cold buffers; llama.cpp allocates them at load.
        engine.decode_s(_prompts(engine, batch), WARM_UP_TOKENS)
        speeds[cell] = batch * new_tokens / engine.decode_s(_prompts(engine, batch), new_tokens)
    return speeds


def _prompts(engine: Timed, batch: int) -> list[Prompt]:
    return [_prompt(engine, SHORT_PROMPT) for _ in range(batch)]


def _prompt(engine: Timed, length: int) -> Prompt:
    """Random ids: no two prompts share a prefix, so no cache can help."""
    return [random.randrange(FIRST_ID, engine.vocab_size) for _ in range(length)]
