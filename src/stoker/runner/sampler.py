"""Rows of logits in, drawn tokens and their log-probabilities out. It may not know the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.core.plan import SampleSpec, SeqResult, SeqStep
from stoker.core.request import MIN_LOGPROB, TokenLogprobs
from stoker.kernels.ops import Array, Draw, Ints, Ops
from stoker.runner.logits import adjust, needs_adjusting


def draw(ops: Ops, logits: Array, seqs: Sequence[SeqStep]) -> list[SeqResult]:
    """Draw one token for each sequence, all of which have a `sample`.

    logits: float32 [S, V], one row a sequence; not changed. A row from which nothing can be drawn,
    before or after the request's own adjustments, fails its sequence alone.
    """
    specs = [seq.sample for seq in seqs if seq.sample is not None]
    tokens = ops.sample(_adjusted(ops, logits, specs), draws(specs))
    logprobs = _logprobs(ops, logits, tokens, specs)
    return [
        SeqResult(seq.request_id, (token,), logprobs.get(i))
        if token >= 0
        else SeqResult(seq.request_id, error=_why(ops.numpy(logits)[i], specs[i]))
        for i, (seq, token) in enumerate(zip(seqs, tokens, strict=True))
    ]


def draws(specs: Sequence[SampleSpec]) -> list[Draw]:
    """The requests' parameters as a kernel set takes them."""
    return [
        Draw(
            (params := spec.params).temperature,
            params.top_p,
            params.min_p,
            params.top_k,
            params.seed,
            spec.choice,
            len(spec.history),
        )
        for spec in specs
    ]


def _why(row: NDArray[np.float32], spec: SampleSpec) -> str:
    usable = np.isfinite(row.max())  # NaN is the largest of all
    what = "the request's bias and penalties leave" if usable else "the model's logits are"
    return f"no token can be drawn: {what} not finite at position {len(spec.history)}"


def _adjusted(ops: Ops, logits: Array, specs: Sequence[SampleSpec]) -> Array:
    rows = [i for i, spec in enumerate(specs) if needs_adjusting(spec)]
    if not rows:
        return logits
    adjusted = ops.numpy(logits).copy()
    for i in rows:
        adjust(adjusted[i], specs[i])
    return ops.array(adjusted)


def _logprobs(
    ops: Ops, logits: Array, tokens: Sequence[int], specs: Sequence[SampleSpec]
) -> dict[int, tuple[TokenLogprobs]]:
    """By row, for those that ask and have a token."""
    wanted = {
        i: spec.params.logprobs
        for i, spec in enumerate(specs)
        if spec.params.logprobs is not None and tokens[i] >= 0
    }
    if not wanted:
        return {}
    index = np.array(list(wanted), np.int32)
    drawn = np.array([tokens[i] for i in wanted], np.int32)
    entries = token_logprobs(ops, ops.rows(logits, index), drawn, list(wanted.values()))
    return {i: (entry,) for i, entry in zip(wanted, entries, strict=True)}


def token_logprobs(
    ops: Ops, logits: Array, tokens: Ints, num_top: Sequence[int]
) -> list[TokenLogprobs]:
    """float32 [S, V], int32 [S] → what is said of each row's token and of its `num_top` best."""
    most = min(max(num_top), logits.shape[1])
    picked, top_ids, top = ops.logprobs(logits, tokens, most)
    top = np.maximum(top, MIN_LOGPROB)
    return [
        TokenLogprobs(
            token_id=int(token),
            logprob=max(float(picked[row]), MIN_LOGPROB),
            top_ids=tuple(top_ids[row, :k].tolist()),
            top_logprobs=tuple(top[row, :k].tolist()),
        )
        for row, (token, k) in enumerate(zip(tokens, num_top, strict=True))
    ]
