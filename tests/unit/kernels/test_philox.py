"""The random words are Philox4x32-10: the known answers that Random123 publishes."""

from __future__ import annotations

import pytest

from stoker.kernels.reference import philox4x32, uniform

Words = tuple[int, int, int, int]
ONES = 0xFFFFFFFF
KNOWN: list[tuple[Words, tuple[int, int], Words]] = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter: Words, key: tuple[int, int], words: Words) -> None:
    assert philox4x32(counter, key) == words


def test_the_uniform_number_is_made_of_the_first_two_words() -> None:
    assert uniform(0, 0, 0) == ((0xE169C58D << 32 | 0x6627E8D5) >> 11) / 2**53
    assert uniform(-1, 0, 0) == uniform(2**64 - 1, 0, 0)
