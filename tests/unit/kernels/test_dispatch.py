"""Names to kernel sets."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stoker.kernels.cpu import available_isas
from stoker.kernels.dispatch import get_ops


def test_each_name_gives_its_set() -> None:
    assert get_ops("reference", 1).name == "reference"
    assert get_ops("cpu", 1).name == "cpu"


def test_portable_is_always_there() -> None:
    assert available_isas()[-1] == "portable"
    assert cast(Any, get_ops("cpu", 1, "portable")).isa == "portable"
    assert cast(Any, get_ops("cpu", 1)).isa == available_isas()[0]


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="avx9"):
        get_ops("cpu", 1, "avx9")
    with pytest.raises(ValueError, match="threads is 0"):
        get_ops("cpu", 0)
    with pytest.raises(ValueError, match="gpu"):
        get_ops(cast(Any, "gpu"), 1)
