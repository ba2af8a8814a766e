"""Sequences in rank order: those that wait for a seat, and those that have one.

A preempted sequence keeps its arrival number, so it comes back before equals that arrived later.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from stoker.sched.sequence import Rank, Sequence


class RankedList:
    """Sequences sorted by rank; O(log n) to find, one memory move to insert or remove."""

    def __init__(self) -> None:
        self._seqs: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._seqs)

    def __getitem__(self, position: int) -> Sequence:
        return self._seqs[position]

    def __contains__(self, seq: Sequence) -> bool:
        position = bisect_left(self._seqs, seq.rank, key=_rank)
        return position < len(self._seqs) and self._seqs[position] is seq

    def add(self, seq: Sequence) -> None:
        insort(self._seqs, seq, key=_rank)

    def remove(self, seq: Sequence) -> None:
        """Raises ValueError when it is not here."""
        if seq not in self:
            raise ValueError(f"{seq.id} is not in this list")
        del self._seqs[bisect_left(self._seqs, seq.rank, key=_rank)]

    def snapshot(self) -> list[Sequence]:
        return list(self._seqs)


def _rank(seq: Sequence) -> Rank:
    return seq.rank
