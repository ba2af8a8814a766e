"""A captured step gives the bits of the same kernels called op by op.

Logits are compared for equality over random batches: prefill, chunks and decode in one step, with
pages shuffled and what nobody may read poisoned.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stoker.core.config import Limits
from stoker.core.model import PAGE_SIZE, KVLayout, ModelConfig, kv_layout
from stoker.core.plan import SampleSpec, SeqStep, StepPlan
from stoker.core.request import SamplingParams
from stoker.kernels.cpu import CpuOps, available_isas
from stoker.models.model import Model
from stoker.models.registry import build_model
from stoker.runner.forward import EagerForward
from stoker.runner.graph import StepGraph
from stoker.runner.kv_cache import KVCache
from stoker.weights.checkpoint import open_checkpoint
from tests.support.checkpoints import FAMILIES, make_tiny, write_gguf
from tests.support.paged import poison

MIXED = "llama-mixed-formats"
"""Layers whose q, k and v, and gate and up, need the same rows in three codes."""
DRAW = SampleSpec(SamplingParams(), 0, [0], 0)


def _write_mixed(path: Path) -> None:
    kinds = {"token_embd.weight": "Q8_0", "output.weight": "Q4_0"}
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    formats = ("Q4_1", "Q8_0", "F16", "Q4_0", "Q8_0", "Q4_1", "Q5_1")
    for name, kind in zip(names, formats, strict=True):
        kinds |= {f"blk.{layer}.{name}.weight": kind for layer in range(2)}
    write_gguf(path, quant=kinds)


def _checkpoint(name: str, folder: Path) -> str:
    if name == MIXED:
        _write_mixed(folder / "model.gguf")
        return str(folder / "model.gguf")
    if name != "smollm2":
        make_tiny(name, folder)
    return str(folder) if name != "smollm2" else ""


def _poisoned(ops: CpuOps, layout: KVLayout, num_pages: int) -> KVCache:
    kv = KVCache(ops, layout, num_pages)
    poison(kv)
    return kv


class Pair:
    """The same model twice, on pages of its own each: op by op, and captured."""

    def __init__(self, model: Model, config: ModelConfig, ops: CpuOps, budget: int) -> None:
        layout = kv_layout(config, "bf16")
        limits = Limits(
            kv=layout,
            vocab_size=config.vocab_size,
            num_pages=400,
            max_model_len=min(1024, config.max_position_embeddings),
            max_num_seqs=8,
            max_num_batched_tokens=budget,
            threads=1,
        )
        eager_kv, graph_kv = (_poisoned(ops, layout, limits.num_pages) for _ in range(2))
        self.eager = EagerForward(model, ops, eager_kv)
        self.graph = StepGraph(model, ops, graph_kv, limits)
        self.layout = layout


def _plans(pair: Pair, vocab: int, budget: int, seed: int) -> Iterator[StepPlan]:
    """Steps of up to five sequences, each of any size, until all have some tokens."""
    rng = random.Random(seed)
    free = rng.sample(range(400), 400)
    seqs = [SeqStep(f"s{i}", [], 0, tuple([] for _ in pair.layout.groups), None) for i in range(5)]
    for step_id in range(12):
        left, parts = budget, []
        for i in rng.sample(range(len(seqs)), rng.randint(1, len(seqs))):
            count = min(rng.choice((1, 1, 1, 2, 5, 17, 40)), left)
            if not count:
                continue
            left -= count
            old = seqs[i]
            start = old.start + len(old.token_ids)
            for pages, group in zip(old.page_tables, pair.layout.groups, strict=True):
                while len(pages) * PAGE_SIZE < start + count:
                    pages.append(free.pop())
                gone = 0 if group.window is None else max(0, start - group.window + 1) // PAGE_SIZE
                pages[:gone] = [-1] * gone
            tokens = rng.choices(range(vocab), k=count)
            draws = DRAW if rng.random() < 0.7 else None
            seqs[i] = replace(old, token_ids=tokens, start=start, sample=draws)
            parts.append(seqs[i])
        yield StepPlan(step_id, tuple(parts))


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("name", [*FAMILIES, MIXED, "smollm2"])
def test_same_bits(name: str, isa: str, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(_checkpoint(name, tmp_path))
    # 30 layers without vector instructions take long: few tokens will do.
    threads, budget = (2, 6) if name == "smollm2" and isa == "portable" else (3, 96)
    ops = CpuOps(threads, isa)
    model = build_model(checkpoint.config, checkpoint, ops, lambda done, total: None)
    pair = Pair(model, checkpoint.config, ops, budget)
    for plan in _plans(pair, checkpoint.config.vocab_size, budget, seed=len(name)):
        want, got = pair.eager(plan), pair.graph(plan)
        if want is None:
            assert got is None
        else:
            assert got is not None and np.isfinite(want).all()
            assert np.array_equal(got, want)


def test_threads_leave_no_trace(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(_checkpoint(MIXED, tmp_path))
    runs = []
    for threads in (1, 2, 5):
        ops = CpuOps(threads)
        model = build_model(checkpoint.config, checkpoint, ops, lambda done, total: None)
        pair = Pair(model, checkpoint.config, ops, 96)
        plans = _plans(pair, checkpoint.config.vocab_size, 96, seed=3)
        runs.append([None if x is None else x.copy() for x in map(pair.graph, plans)])
    for step in zip(*runs, strict=True):
        first, *others = step
        assert all(first is other is None or np.array_equal(first, other) for other in others)
