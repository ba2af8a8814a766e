"""What a request does to its row of logits before a token is drawn, always in this order:

1. logit_bias is added.
2. Tokens that may not be drawn get -inf: those that `min_tokens` still forbids, those outside
   allowed_token_ids, and those that would complete one of bad_words.
3. repetition_penalty, for every token of prompt or output.
4. frequency_penalty and presence_penalty, for every token of the output.

Log-probabilities are the model's own and come from the row as it was before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.core.plan import SampleSpec
from stoker.core.request import SamplingParams

Row = NDArray[np.float32]

SMALLEST_PENALTY = 1e-30
"""What repetition_penalty is at least: float32 makes infinity or NaN of logits by smaller ones."""


def needs_adjusting(spec: SampleSpec) -> bool:
    """Whether `adjust` would change the row."""
    params = spec.params
    forbids = spec.banned_token_ids or params.allowed_token_ids or params.bad_words
    return bool(params.logit_bias or forbids or _penalises(params))


def _penalises(params: SamplingParams) -> bool:
    return bool(
        params.repetition_penalty != 1.0 or params.frequency_penalty or params.presence_penalty
    )


@np.errstate(all="ignore")  # the sampler finds the rows that are left without a finite logit
def adjust(row: Row, spec: SampleSpec) -> None:
    """Change one row of logits, float32 [V], in place. Ids outside the vocabulary have no logit."""
    params = spec.params
    if params.logit_bias:
        ids, index = _known(list(params.logit_bias), row)
        row[ids] += np.array(list(params.logit_bias.values()), np.float32)[index]
    if params.allowed_token_ids:
        allowed, _ = _known(params.allowed_token_ids, row)
        kept = row[allowed]
        row[:] = -np.inf
        row[allowed] = kept
    banned = [*spec.banned_token_ids, *_completing(spec)]
    if banned:
        row[_known(banned, row)[0]] = -np.inf
    # The whole context is gone through for every token: made an array once, and marked, not sorted.
    history = np.asarray(spec.history if _penalises(params) else (), dtype=np.int32)
    if params.repetition_penalty != 1.0:
        penalty = max(params.repetition_penalty, SMALLEST_PENALTY)
        is_seen = np.zeros(row.shape[0], dtype=np.bool_)
        is_seen[history] = True
        ids = np.flatnonzero(is_seen)
        seen = row[ids]
        row[ids] = np.where(seen > 0, seen / penalty, seen * penalty)
    if params.frequency_penalty or params.presence_penalty:
        seen_ids, counts = np.unique(history[spec.num_prompt_tokens :], return_counts=True)
        times = counts.astype(np.float32)
        row[seen_ids] -= params.frequency_penalty * times + params.presence_penalty


def _completing(spec: SampleSpec) -> list[int]:
    """Last tokens of those of `bad_words` of which the output ends with all tokens but that."""
    length = len(spec.history)
    num_output = length - spec.num_prompt_tokens
    return [
        word[-1]
        for word in spec.params.bad_words
        if len(word) <= num_output + 1
        and tuple(spec.history[length + 1 - len(word) :]) == word[:-1]
    ]


def _known(token_ids: Sequence[int], row: Row) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The ids that have a logit, and where they are in `token_ids`."""
    ids = np.array(token_ids, np.int64)
    index = np.flatnonzero((ids >= 0) & (ids < row.shape[0]))
    return ids[index], index
