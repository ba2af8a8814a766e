"""Rank order: priority first, arrival second; a preempted sequence returns to its place."""

from __future__ import annotations

import pytest

from stoker.memory.table import PageTable
from stoker.sched.ranked import RankedList
from stoker.sched.sequence import Sequence
from tests.support.scheduling import request


def sequence(request_id: str, priority: int, arrival: int) -> Sequence:
    item = request(request_id, [1], priority=priority)
    return Sequence(item, PageTable(b"", ([],)), arrival, frozenset(), 10)


def test_order_is_priority_then_arrival_whatever_the_order_of_adding() -> None:
    seqs = [sequence("c", 1, 0), sequence("b", 0, 2), sequence("a", 0, 1), sequence("d", 1, 3)]
    ranked = RankedList()
    for seq in seqs:
        ranked.add(seq)
    assert [seq.id for seq in ranked.snapshot()] == ["a", "b", "c", "d"]
    ranked.remove(seqs[2])
    ranked.add(sequence("e", 0, 4))
    ranked.add(seqs[2])  # back from preemption
    assert [seq.id for seq in ranked.snapshot()] == ["a", "b", "e", "c", "d"]


def test_membership_is_identity() -> None:
    ranked = RankedList()
    ranked.add(sequence("a", 0, 1))
    twin = sequence("a", 0, 1)
    assert twin not in ranked
    with pytest.raises(ValueError, match="a is not"):
        ranked.remove(twin)
