"""Large memory: zeros that can be written, of any size."""

from __future__ import annotations

import pytest

from stoker.kernels import memory


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 5 << 20])
def test_zeros_can_be_written(nbytes: int) -> None:
    array = memory.zeros(nbytes)
    assert array.nbytes == nbytes and not array.any()
    array[:] = 7
    assert (array == 7).all()


def test_two_pieces_do_not_share_memory() -> None:
    one, other = memory.zeros(4096), memory.zeros(4096)
    one[:] = 1
    assert not other.any()
