"""BPE merges of a SentencePiece vocabulary, which stores a score per piece instead.

SentencePiece joins the adjacent pair whose union is the piece of highest score, leftmost first
(Kudo & Richardson 2018, and the reference implementation). A BPE table says the same when it
lists, best piece first, every way to cut the piece in two pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def merges_from_scores(
    tokens: Sequence[str], scores: ArrayLike, can_merge: Sequence[bool]
) -> list[tuple[str, str]]:
    """Pairs to merge, in falling order of their union's score.

    tokens, scores [n], can_merge: one entry per piece. Pieces with `can_merge` false (control,
    bytes, user-defined) are neither parts nor unions. The order among the cuts of one piece is
    free: two overlapping cuts of equal union would need the longer part first on one side and last
    on the other, which joining from the left never leaves.
    """
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable").tolist()
    known = {token for token, ok in zip(tokens, can_merge, strict=True) if ok}
    return [
        (token[:cut], token[cut:])
        for token in (tokens[i] for i in order if can_merge[i])
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
