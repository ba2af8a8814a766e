"""From the hidden state that an engine pooled to the embedding that a user gets. Plain Python."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from stoker.core.errors import InvalidRequest


def check_dimensions(dimensions: int | None, size: int) -> None:
    """Raise InvalidRequest unless vectors of `size` numbers have so many."""
    if dimensions is not None and not 1 <= dimensions <= size:
        raise InvalidRequest(
            f"dimensions is {dimensions}, but this model's vectors have {size}", param="dimensions"
        )


def embedding(
    pooled: Sequence[float], dimensions: int | None = None, *, normalize: bool = True
) -> array[float]:
    """The first `dimensions` numbers (Matryoshka embeddings: Kusupati et al. 2022; None: all),
    scaled to length 1 unless `normalize` is off; float32. A vector of zeros stays one.
    """
    kept = pooled[:dimensions]
    # The sum is rounded once, so no order of adding shows in it.
    length = math.sqrt(math.fsum(x * x for x in kept)) if normalize else 1.0
    return array("f", [x / length for x in kept] if length else kept)
