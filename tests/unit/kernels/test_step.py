"""A step is refused where the native plan could not run it: a ValueError, never a crash."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.kernels._native import Step


def step() -> Step:
    """Room for 8 tokens of 2 sequences, 2 KV groups of 3 pages."""
    return Step(8, 2, 2, 3)


def test_samples_are_counted_until_cleared() -> None:
    one = step()
    one.add([1, 2], 15, ([0, 1], (2, 3)), True)
    one.add((5,), 0, [[4], [5]], False)
    assert one.num_samples == 1
    one.clear()
    assert one.num_samples == 0
    one.add([7] * 8, 40, [[0, 1, 2], [-1, 1, 2]], True)


WRONG: dict[str, Callable[[Step], None]] = {
    "too many tokens": lambda s: s.add([1] * 9, 0, [[0], [0]], True),
    "no token": lambda s: s.add([], 0, [[0], [0]], True),
    "negative start": lambda s: s.add([1], -1, [[0], [0]], True),
    "one group is missing": lambda s: s.add([1], 0, [[0]], True),
    "too few pages": lambda s: s.add([1, 2], 15, [[0, 1], [0]], True),
    "too many pages": lambda s: s.add([1], 0, [[0] * 4, [0]], True),
    "beyond the longest sequence": lambda s: s.add([1], 48, [[0] * 3, [0] * 3], True),
    "an id is no int32": lambda s: s.add([2**31], 0, [[0], [0]], True),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_sequences_are_value_errors(case: str) -> None:
    with pytest.raises(ValueError, match=r"must|need|int32"):
        WRONG[case](step())


def test_too_many_sequences_are_a_value_error() -> None:
    full = step()
    for _ in range(2):
        full.add([1], 0, [[0], [0]], True)
    with pytest.raises(ValueError, match="sequences in a step are 3"):
        full.add([1], 0, [[0], [0]], True)


def test_ids_must_be_ints() -> None:
    with pytest.raises(TypeError):
        step().add(["a"], 0, [[0], [0]], True)  # type: ignore[list-item]
