"""What a request does to its row of logits before a token is drawn, always in this order:

1. logit_bias is added.
2. Tokens that `min_tokens` still forbids get -inf.
3. repetition_penalty, for every token of prompt or output.
4. frequency_penalty and presence_penalty, for every token of the output.

Log-probabilities are the model's own and come from the row as it was before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from stoker.core.plan import SampleSpec
from stoker.kernels.ops import Array

SMALLEST_PENALTY = 1e-30
"""What repetition_penalty is at least: float32 makes infinity or NaN of logits by smaller ones."""


def needs_adjusting(spec: SampleSpec) -> bool:
    """Whether `adjust` would change the row."""
    params = spec.params
    return bool(
        params.logit_bias
        or spec.banned_token_ids
        or params.repetition_penalty != 1.0
        or params.frequency_penalty
        or params.presence_penalty
    )


def adjust(row: Array, spec: SampleSpec) -> None:
    """Change one row of logits, float32 [V], in place. Ids outside the vocabulary have no logit."""
    params = spec.params
    if params.logit_bias:
        ids, index = _known(list(params.logit_bias), row)
        row[ids] += torch.tensor(list(params.logit_bias.values()))[index]
    if spec.banned_token_ids:
        row[_known(spec.banned_token_ids, row)[0]] = -torch.inf
    if params.repetition_penalty != 1.0:
        penalty = max(params.repetition_penalty, SMALLEST_PENALTY)
        # Marks instead of a sort: the whole context is gone through for every token.
        is_seen = np.zeros(row.shape[0], dtype=np.bool_)
        is_seen[np.asarray(spec.history, dtype=np.int32)] = True
        ids = torch.from_numpy(np.flatnonzero(is_seen))
        seen = row[ids]
        row[ids] = torch.where(seen > 0, seen / penalty, seen * penalty)
    if params.frequency_penalty or params.presence_penalty:
        output = np.asarray(spec.history[spec.num_prompt_tokens :], dtype=np.int32)
        seen_ids, counts = np.unique(output, return_counts=True)
        times = torch.from_numpy(counts).float()
        row[torch.from_numpy(seen_ids.astype(np.int64))] -= (
            params.frequency_penalty * times + params.presence_penalty
        )


def _known(token_ids: Sequence[int], row: Array) -> tuple[Array, Array]:
    """The ids that have a logit, and where they are in `token_ids`."""
    ids = torch.tensor(token_ids, dtype=torch.int64)
    index = ((ids >= 0) & (ids < row.shape[0])).nonzero().flatten()
    return ids[index], index
