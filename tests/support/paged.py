"""Runs a model over pages without a scheduler.

Page tables are shuffled on purpose, so that a kernel that ignores them fails, and pages that no row
may read are poisoned.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stoker.core.model import PAGE_SIZE, KVDtype, ModelConfig, kv_layout
from stoker.core.plan import SeqStep, StepPlan
from stoker.kernels.ops import Ops
from stoker.models.model import Model
from stoker.runner.batch import build_inputs
from stoker.runner.kv_cache import KVCache

BF16_NAN = 0x7FC0


@dataclass(eq=False)
class PagedSequence:
    """Tokens computed so far and, per KV group, their pages."""

    name: str
    pages: tuple[list[int], ...]
    num_computed: int = 0
    logits: list[np.ndarray] = field(default_factory=list)
    """One [V] row per computed token."""


def poison(cache: KVCache) -> None:
    """NaN in every slot of every page, in the arrays of whatever kernel set."""
    for kv in cache.layers:
        for pages in (kv.k, kv.v):
            pages[:] = BF16_NAN if pages.dtype == np.uint16 else np.nan


class PagedModel:
    """A model with a page pool, fed any mix of chunks; keeps the logits of every token."""

    def __init__(
        self,
        model: Model,
        config: ModelConfig,
        ops: Ops,
        *,
        num_pages: int = 512,
        kv_dtype: KVDtype = "f32",
        seed: int = 0,
    ) -> None:
        self._model = model
        self._ops = ops
        self._layout = kv_layout(config, kv_dtype)
        self._cache = KVCache(ops, self._layout, num_pages)
        poison(self._cache)
        self._free = list(range(num_pages))
        random.Random(seed).shuffle(self._free)

    def sequence(self, name: str = "seq") -> PagedSequence:
        return PagedSequence(name, tuple([] for _ in self._layout.groups))

    def step(self, parts: Sequence[tuple[PagedSequence, Sequence[int]]]) -> None:
        """Compute the next tokens of some sequences in one batch."""
        plan = StepPlan(0, tuple(self._seq_step(seq, tokens) for seq, tokens in parts))
        hidden = self._model.forward(build_inputs(plan, self._cache))
        rows = iter(self._ops.numpy(self._model.logits(hidden)))
        for seq, tokens in parts:
            seq.logits += [next(rows) for _ in tokens]
            seq.num_computed += len(tokens)

    def _seq_step(self, seq: PagedSequence, tokens: Sequence[int]) -> SeqStep:
        end = seq.num_computed + len(tokens)
        for pages, group in zip(seq.pages, self._layout.groups, strict=True):
            while len(pages) * PAGE_SIZE < end:
                pages.append(self._free.pop())
            if group.window is not None:
                gone = max(0, seq.num_computed - group.window + 1) // PAGE_SIZE
                pages[:gone] = [-1] * gone
        return SeqStep(seq.name, list(tokens), seq.num_computed, seq.pages, None)
