"""Names to kernel sets."""

from __future__ import annotations

from typing import Any, cast, get_args

import pytest

from stoker.core.config import IsaName
from stoker.core.errors import ConfigError
from stoker.kernels.cpu import CpuOps, available_isas
from stoker.kernels.dispatch import get_ops


def test_each_name_gives_its_set() -> None:
    assert get_ops("reference", 1).name == "reference"
    assert get_ops("cpu", 1).name == "cpu"


def test_portable_is_always_there() -> None:
    assert available_isas()[-1] == "portable"
    assert set(available_isas()) < set(get_args(IsaName))
    assert cast(Any, get_ops("cpu", 1, "portable")).isa == "portable"
    assert cast(Any, get_ops("cpu", 1)).isa == available_isas()[0]


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(ConfigError, match="isa is avx9, but this CPU and build have only"):
        get_ops("cpu", 1, cast(Any, "avx9"))
    with pytest.raises(ValueError, match="avx9"):
        CpuOps(1, "avx9")
    with pytest.raises(ValueError, match="threads is 0"):
        get_ops("cpu", 0)
    with pytest.raises(ValueError, match="gpu"):
        get_ops(cast(Any, "gpu"), 1)
