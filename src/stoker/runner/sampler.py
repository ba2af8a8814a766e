"""Rows of logits in, drawn tokens and their log-probabilities out. It may not know the model."""

from __future__ import annotations

from collections.abc import Sequence

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
    lowest, highest = torch.aminmax(logits, dim=-1)  # NaN, where there is one
    broken = ~(torch.isfinite(lowest) & torch.isfinite(highest))
    adjusted = _adjusted(logits, specs)
    # One finite logit and no NaN or +inf are enough to draw from; the maximum shows all three.
    unusable = ~torch.isfinite(highest if adjusted is logits else adjusted.amax(dim=-1))
    failed = (broken | unusable).nonzero().flatten()
    if len(failed):
        adjusted = adjusted.index_fill(0, failed, 0.0)  # any numbers that can be drawn from
    tokens = ops.sample(adjusted, draws(specs))
    logprobs = _logprobs(ops, logits, tokens, specs)
    results = [
        SeqResult(seq.request_id, (token,), None if entry is None else (entry,))
        for seq, token, entry in zip(seqs, tokens.tolist(), logprobs, strict=True)
    ]
    for i in failed.tolist():
        what = "the model's logits are" if broken[i] else "the request's bias and penalties leave"
        results[i] = SeqResult(
            seqs[i].request_id,
            error=f"no token can be drawn: {what} not finite at position {len(specs[i].history)}",
        )
    return results


def draws(specs: Sequence[SampleSpec]) -> Draws:
    """The requests' parameters as arrays."""
    params = [spec.params for spec in specs]
    seeds = np.array([p.seed & (2**64 - 1) for p in params], dtype=np.uint64).view(np.int64)
    return Draws(
        temperature=torch.tensor([p.temperature for p in params], dtype=torch.float32),
        top_p=torch.tensor([p.top_p for p in params], dtype=torch.float32),
        min_p=torch.tensor([p.min_p for p in params], dtype=torch.float32),
        top_k=torch.tensor([p.top_k for p in params], dtype=torch.int32),
        seed=torch.from_numpy(seeds),
        choice=torch.tensor([spec.choice for spec in specs], dtype=torch.int32),
        position=torch.tensor([len(spec.history) for spec in specs], dtype=torch.int64),
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
