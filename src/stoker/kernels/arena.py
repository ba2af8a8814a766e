"""Where buffers lie in one piece of memory: those that are not alive together may share bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer of `size` bytes that is needed from op `start` to op `end`, both included."""

    start: int
    end: int
    size: int


def place(lives: Sequence[Life]) -> tuple[list[int], int]:
    """An offset in bytes for each buffer, and the bytes of all. Large ones choose first."""
    offsets = [0] * len(lives)
    placed: list[int] = []
    for i in sorted(range(len(lives)), key=lambda i: -lives[i].size):
        life = lives[i]
        neighbours = sorted(
            (offsets[j], offsets[j] + _aligned(lives[j].size))
            for j in placed
            if lives[j].start <= life.end and life.start <= lives[j].end
        )
        offset = 0
        for begin, end in neighbours:
            if offset + life.size <= begin:
                break
            offset = max(offset, end)
        offsets[i] = offset
        placed.append(i)
    ends = [offset + _aligned(life.size) for offset, life in zip(offsets, lives, strict=True)]
    return offsets, max(ends, default=0)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
