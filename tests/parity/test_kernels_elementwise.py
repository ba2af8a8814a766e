"""rms_norm, glu, add and rows of the native set against the reference, and the promise on them.

Tolerances: rms_norm and glu 2e-6 relative to the largest number (float32 sums in another order, and
an exp within 2 ulp); add and rows are exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.model import Activation
from tests.support.kernels import ISAS, REFERENCE, Native, native

SHAPES = [(1, 1), (3, 7), (5, 64), (40, 577), (300, 33)]


def values(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 4


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=0, atol=2e-6 * float(wanted.abs().max()))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm_equals_the_reference(shape: tuple[int, int], isa: str) -> None:
    x, weight = values(*shape), values(1, shape[1], 1)[0]
    close(native(isa).rms_norm(x, weight, 1e-5), REFERENCE.rms_norm(x, weight, 1e-5))


@pytest.mark.parametrize("isa", ISAS)
def test_rms_norm_works_on_heads(isa: str) -> None:
    x, weight = values(6, 4 * 16).view(6, 4, 16), values(1, 16, 1)[0]
    got = native(isa).rms_norm(x, weight, 1e-6)
    assert got.shape == x.shape
    close(got, REFERENCE.rms_norm(x, weight, 1e-6))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_glu_equals_the_reference(activation: Activation, isa: str) -> None:
    for shape in SHAPES:
        gate, up = values(*shape), values(*shape, 1)
        close(native(isa).glu(gate, up, activation), REFERENCE.glu(gate, up, activation))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_glu_is_right_far_out(activation: Activation, isa: str) -> None:
    gate = torch.linspace(-200, 200, 4001)
    got = native(isa).glu(gate, torch.ones(4001), activation)
    wanted = REFERENCE.glu(gate, torch.ones(4001), activation)
    torch.testing.assert_close(got, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_add_and_rows_are_exact(isa: str) -> None:
    for shape in SHAPES:
        x, y = values(*shape), values(*shape, 1)
        assert torch.equal(native(isa).add(x, y), x + y)
        index = np.array([shape[0] - 1, 0, 0], np.int32)
        assert torch.equal(native(isa).rows(x, index), REFERENCE.rows(x, index))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_row_depends_on_nothing_but_itself(isa: str, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 300))
    x, y, weight = values(rows, columns), values(rows, columns, 1), values(1, columns, 2)[0]
    begin = data.draw(st.integers(0, rows))
    end = data.draw(st.integers(begin, rows))
    runs: list[Callable[[Native, slice], torch.Tensor]] = [
        lambda ops, part: ops.rms_norm(x[part], weight, 1e-5),
        lambda ops, part: ops.glu(x[part], y[part], "silu"),
        lambda ops, part: ops.glu(x[part], y[part], "gelu_tanh"),
        lambda ops, part: ops.add(x[part], y[part]),
    ]
    for run in runs:
        whole = run(native(isa, 1), slice(0, rows))
        assert torch.equal(run(native(isa, 3), slice(begin, end)), whole[begin:end])
