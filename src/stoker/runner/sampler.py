"""Rows of logits in, drawn tokens and their log-probabilities out. It may not know the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from stoker.core.plan import SampleSpec, SeqResult, SeqStep
from stoker.core.request import TokenLogprobs
from stoker.kernels.ops import Array, Draws, Ops
from stoker.runner.logits import adjust, needs_adjusting

MIN_LOGPROB = -9999.0
"""Stands for log(0): JSON has no infinity."""


def draw(ops: Ops, logits: Array, seqs: Sequence[SeqStep]) -> list[SeqResult]:
    """Draw one token for each sequence, all of which have a `sample`.

    logits: float32 [S, V], one row a sequence; not changed. A row that is not finite, before or
    after the request's own adjustments, fails its sequence alone.
    """
    specs = [seq.sample for seq in seqs if seq.sample is not None]
    finite = ops.finite(logits)
    adjusted = _adjusted(logits, specs)
    usable = finite
    if adjusted is not logits:
        # One finite logit and no NaN or +inf are enough to draw from; the maximum shows all three.
        usable = finite & torch.isfinite(adjusted.amax(dim=-1))
    failed = [] if usable.all() else (~usable).nonzero().flatten().tolist()
    if failed:
        adjusted = adjusted.index_fill(0, torch.tensor(failed), 0.0)  # numbers to draw from
    tokens = ops.sample(adjusted, draws(specs))
    logprobs = _logprobs(ops, logits, tokens, specs)
    results = [
        SeqResult(seq.request_id, (token,), None if entry is None else (entry,))
        for seq, token, entry in zip(seqs, tokens.tolist(), logprobs, strict=True)
    ]
    for i in failed:
        what = "the request's bias and penalties leave" if finite[i] else "the model's logits are"
        results[i] = SeqResult(
            seqs[i].request_id,
            error=f"no token can be drawn: {what} not finite at position {len(specs[i].history)}",
        )
    return results


def draws(specs: Sequence[SampleSpec]) -> Draws:
    """The requests' parameters as arrays."""
    params = [spec.params for spec in specs]

    def column(values: list[Any], kind: type[np.generic]) -> Array:
        return torch.from_numpy(np.array(values, dtype=kind))

    return Draws(
        temperature=column([p.temperature for p in params], np.float32),
        top_p=column([p.top_p for p in params], np.float32),
        min_p=column([p.min_p for p in params], np.float32),
        top_k=column([p.top_k for p in params], np.int32),
        seed=column([p.seed & (2**64 - 1) for p in params], np.uint64).view(torch.int64),
        choice=column([spec.choice for spec in specs], np.int32),
        position=column([len(spec.history) for spec in specs], np.int64),
    )


def _adjusted(logits: Array, specs: Sequence[SampleSpec]) -> Array:
    rows = [i for i, spec in enumerate(specs) if needs_adjusting(spec)]
    if not rows:
        return logits
    adjusted = logits.clone()
    for i in rows:
        adjust(adjusted[i], specs[i])
    return adjusted


def _logprobs(
    ops: Ops, logits: Array, tokens: Array, specs: Sequence[SampleSpec]
) -> list[TokenLogprobs | None]:
    entries: list[TokenLogprobs | None] = [None] * len(specs)
    wanted = {i: s.params.logprobs for i, s in enumerate(specs) if s.params.logprobs is not None}
    if not wanted:
        return entries
    index = torch.tensor(list(wanted), dtype=torch.int32)
    most = min(max(wanted.values()), logits.shape[1])
    picked, top_ids, top = ops.logprobs(
        ops.rows(logits, index), tokens[index.long()].contiguous(), most
    )
    top = top.clamp(min=MIN_LOGPROB)
    for row, (i, k) in enumerate(wanted.items()):
        entries[i] = TokenLogprobs(
            token_id=int(tokens[i]),
            logprob=max(float(picked[row]), MIN_LOGPROB),
            top_ids=tuple(top_ids[row, :k].tolist()),
            top_logprobs=tuple(top[row, :k].tolist()),
        )
    return entries
