"""A StepPlan as arrays. It may not know what a model does with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stoker.core.model import PAGE_SIZE
from stoker.core.plan import SeqStep, StepPlan
from stoker.kernels.ops import Ints, Rows
from stoker.layers.inputs import LayerStep, StepInputs
from stoker.runner.kv_cache import KVCache


def build_inputs(plan: StepPlan, cache: KVCache) -> StepInputs:
    """The arrays of a step: rows of a sequence side by side, sequences in the plan's order."""
    positions, row_seq = _positions(plan.seqs)
    num_groups = len(plan.seqs[0].page_tables)
    rows = [Rows(positions, row_seq, _page_table(plan.seqs, group)) for group in range(num_groups)]
    return StepInputs(
        token_ids=_int32([token for seq in plan.seqs for token in seq.token_ids]),
        layers=tuple(
            LayerStep(rows[cache.group_of[layer]], kv) for layer, kv in enumerate(cache.layers)
        ),
    )


def last_rows(plan: StepPlan) -> Ints:
    """int32 [S]: the last row of each sequence that draws a token, in the plan's order."""
    ends = np.cumsum([len(seq.token_ids) for seq in plan.seqs])
    return _int32([end - 1 for end, seq in zip(ends, plan.seqs, strict=True) if seq.sample])


def _positions(seqs: Sequence[SeqStep]) -> tuple[Ints, Ints]:
    counts = np.array([len(seq.token_ids) for seq in seqs])
    starts = np.array([seq.start for seq in seqs])
    row_seq = np.repeat(np.arange(len(seqs)), counts)
    first_rows = np.cumsum(counts) - counts
    positions = np.arange(len(row_seq)) - first_rows[row_seq] + starts[row_seq]
    return _int32(positions), _int32(row_seq)


def _page_table(seqs: Sequence[SeqStep], group: int) -> Ints:
    """int32 [B, max_pages]: one row a sequence, -1 where it has no page or needs none."""
    lengths = [-(-(seq.start + len(seq.token_ids)) // PAGE_SIZE) for seq in seqs]
    table = np.full((len(seqs), max(lengths)), -1, dtype=np.int32)
    for row, seq, length in zip(table, seqs, lengths, strict=True):
        row[:length] = seq.page_tables[group][:length]
    return table


def _int32(values: Sequence[int] | np.ndarray) -> Ints:
    return np.asarray(values, dtype=np.int32)
