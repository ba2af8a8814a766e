"""What a request wants of the rows of its prompt: log-probabilities of its tokens, or one vector.

Rows of logits are as wide as the vocabulary, so they are made a bounded number at a time. How many
rows share a slice changes no bit: kernels compute each row for itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.core.plan import PoolSpec, ScoreSpec, SeqResult, SeqStep
from stoker.core.request import TokenLogprobs
from stoker.kernels.ops import Array, Ops
from stoker.models.model import Model
from stoker.runner.forward import Forward
from stoker.runner.sampler import token_logprobs

SLICE_BYTES = 16 << 20
"""Logits that are there at a time."""


class PromptReader:
    """Reads rows of the step that `forward` computed last."""

    def __init__(self, model: Model, ops: Ops, forward: Forward, vocab_size: int) -> None:
        self._model = model
        self._ops = ops
        self._forward = forward
        self._slice = max(1, SLICE_BYTES // (4 * vocab_size))

    def read(self, seq: SeqStep, row: int) -> SeqResult:
        """What `seq`, whose rows of the step begin at `row`, asks for; only that is filled in.

        Numbers that are not finite fail the sequence.
        """
        try:
            scores = () if seq.score is None else self._scores(seq.score, row + seq.score.first)
            pooled = b"" if seq.pool is None else self._pooled(seq.pool, row, len(seq.token_ids))
        except FloatingPointError as error:
            return SeqResult(seq.request_id, error=str(error))
        return SeqResult(seq.request_id, prompt_logprobs=scores, pooled=pooled)

    def _scores(self, spec: ScoreSpec, row: int) -> tuple[TokenLogprobs, ...]:
        scores: list[TokenLogprobs] = []
        for first in range(0, len(spec.targets), self._slice):
            targets = np.array(spec.targets[first : first + self._slice], np.int32)
            rows = np.arange(row + first, row + first + len(targets), dtype=np.int32)
            logits = self._model.logits(self._forward.hidden(rows))
            numbers = self._ops.numpy(logits)
            if not np.isfinite(numbers).all():
                raise FloatingPointError("the model's logits are not finite in the prompt")
            entries = token_logprobs(self._ops, logits, targets, [spec.num_top] * len(targets))
            scores += [
                TokenLogprobs(e.token_id, e.logprob, e.top_ids, e.top_logprobs, _rank(x, e))
                for x, e in zip(numbers, entries, strict=True)
            ]
        return tuple(scores)

    def _pooled(self, spec: PoolSpec, row: int, num_rows: int) -> bytes:
        if spec.pooling == "last":
            [vector] = self._states(row + num_rows - 1, row + num_rows)
            return _finite(vector).astype("<f4").tobytes()
        states = self._states(row + spec.first, row + num_rows)
        total = np.frombuffer(spec.partial, "<f8") if spec.partial else np.zeros(states.shape[1])
        for state in states:  # in this order, whatever the chunks: a sum's bits depend on it
            total = total + state
        if spec.total is None:
            return total.astype("<f8").tobytes()
        return _finite(total / spec.total).astype("<f4").tobytes()

    def _states(self, start: int, end: int) -> NDArray[np.float32]:
        """Rows [start, end) as the head sees them: float32 [R, H], also where R is 0."""
        if start >= end:
            return self._states(end - 1, end)[:0]
        rows: Array = self._forward.hidden(np.arange(start, end, dtype=np.int32))
        return self._ops.numpy(self._model.norm(rows))


def _rank(logits: NDArray[np.float32], entry: TokenLogprobs) -> int:
    """1 for the most probable token; of equal ones the lower id comes first, as among `top_ids`."""
    mine = logits[entry.token_id]
    ahead = np.count_nonzero(logits > mine)
    return int(ahead + np.count_nonzero(logits[: entry.token_id] == mine)) + 1


def _finite(vector: NDArray[np.floating]) -> NDArray[np.floating]:
    if not np.isfinite(vector).all():
        raise FloatingPointError("the model's hidden states are not finite in the prompt")
    return vector
