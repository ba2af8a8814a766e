"""Which sequences run in the next step, and how many tokens each computes.

One rule: computed tokens catch up with known tokens. Prefill, chunks of it, decode, prefix hits and
recompute after preemption are that rule with other numbers. The planner moves sequences between
waiting and running and takes their pages; it knows nothing of sampling, results or clocks.

One pass in rank order, running before waiting at equal priority:

* every running sequence that decodes has one token of the budget reserved; prefill gets the rest;
* who lacks pages, or a seat, takes them from the running sequence of the lowest rank: a running
  sequence from any behind it, a waiting one only from a lower priority. Victims lie behind the
  pass, so none is in the step already, and the first in rank can always go on: no livelock;
* who finds no victim stops: a running one goes back to waiting, a waiting one ends admission, for
  if a later, smaller one went ahead, a large one could wait for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stoker.core.config import Limits
from stoker.core.model import PAGE_SIZE
from stoker.memory.manager import MemoryManager
from stoker.memory.pool import PageAccountingError
from stoker.sched.ranked import RankedList
from stoker.sched.sequence import Rank, Sequence


@dataclass(slots=True)
class _Pass:
    """What one pass has left and has granted."""

    budget: int
    reserved: int
    """Tokens of the budget kept for decodes that the pass has not reached."""
    grants: list[tuple[Sequence, int]] = field(default_factory=list)
    barrier: Rank | None = None
    """Rank of the last preempted sequence: nobody behind it is admitted in this step."""

    @property
    def left(self) -> int:
        return self.budget - self.reserved

    def grant(self, seq: Sequence, num_tokens: int) -> None:
        self.budget -= num_tokens
        self.grants.append((seq, num_tokens))


class Planner:
    """Owns the two lists, waiting and running; a sequence is in at most one of them."""

    def __init__(self, limits: Limits, memory: MemoryManager) -> None:
        self._max_seqs = limits.max_num_seqs
        self._budget = limits.max_num_batched_tokens
        self._memory = memory
        self.waiting = RankedList()
        self.running = RankedList()
        self.num_preemptions = 0

    def plan(self) -> list[tuple[Sequence, int]]:
        """The sequences of the next step with their numbers of tokens; pages are allocated."""
        decodes = sum(seq.num_pending == 1 for seq in self.running.snapshot())
        step = _Pass(self._budget, decodes)
        candidates = self.waiting.snapshot()
        candidates.reverse()
        visited = 0  # running sequences before this position have had their turn
        while candidates or visited < len(self.running):
            runner = self.running[visited] if visited < len(self.running) else None
            if candidates and (runner is None or _priority(candidates[-1]) < _priority(runner)):
                candidate = candidates.pop()
                if self._is_computed_elsewhere(candidate):
                    continue
                if self._admit(candidate, step):
                    visited += 1
                else:
                    candidates.clear()
            elif runner is not None and self._advance(runner, step):
                visited += 1
        return step.grants

    def _advance(self, seq: Sequence, step: _Pass) -> bool:
        """Give a running sequence its tokens; False when it had to leave."""
        if seq.num_pending == 1:
            step.reserved -= 1
        num_tokens = min(seq.num_pending, step.left)
        if num_tokens == 0:
            return True
        while not self._memory.allocate(seq.table, seq.num_computed + num_tokens):
            victim = self.running[-1]
            self._preempt(victim, step, reserved=victim is not seq)
            if victim is seq:
                return False
        step.grant(seq, num_tokens)
        return True

    def _admit(self, seq: Sequence, step: _Pass) -> bool:
        """Seat a waiting sequence and give it its first tokens; False when there is no room."""
        victims = [other for other in self.running.snapshot() if _priority(other) > _priority(seq)]
        has_seat = len(self.running) - len(victims) < self._max_seqs
        is_behind = step.barrier is not None and seq.rank > step.barrier
        # Where the seats are full, the victim that leaves one gives its reserved token with it.
        is_full = len(self.running) >= self._max_seqs
        gain = sum(victim.num_pending == 1 for victim in victims[-1:]) if is_full else 0
        if step.left + gain < 1 or is_behind or not has_seat:
            return False
        self._memory.match(seq.table, seq.tokens, seq.most_cached)
        if not self._make_room(seq, victims, step):
            self._memory.free(seq.table)
            return False
        num_tokens = min(seq.num_pending, step.left)
        if not self._memory.allocate(seq.table, seq.num_computed + num_tokens):
            raise PageAccountingError(f"the pool had room for {seq.id}, then had not")
        self.waiting.remove(seq)
        self.running.add(seq)
        if seq.num_cached is None:
            seq.num_cached = seq.num_computed
        step.grant(seq, num_tokens)
        return True

    def _make_room(self, seq: Sequence, victims: list[Sequence], step: _Pass) -> bool:
        """A seat and pages for all of `seq`, from the last victims if need be; False if never."""
        spare = sum(self._memory.num_held(victim.table) for victim in victims)
        if not self._fits(seq, spare):
            return False  # then nobody is preempted in vain
        while len(self.running) >= self._max_seqs or not self._fits(seq):
            if not victims:
                return False  # pages that victims share with others did not come free
            self._preempt(victims.pop(), step, reserved=True)
        return True

    def _fits(self, seq: Sequence, spare: int = 0) -> bool:
        return self._memory.can_hold(seq.table, len(seq.tokens), self._budget, spare)

    def _preempt(self, seq: Sequence, step: _Pass, *, reserved: bool) -> None:
        """Back to waiting without pages; what was published may still be a hit later.

        `reserved`: the pass has not reached it, so its decode token, if any, is still reserved.
        """
        if reserved and seq.num_pending == 1:
            step.reserved -= 1
        self.running.remove(seq)
        self._memory.free(seq.table)
        self.waiting.add(seq)
        self.num_preemptions += 1
        step.barrier = seq.rank

    def _is_computed_elsewhere(self, seq: Sequence) -> bool:
        """Whether a running sequence is about to publish the next page that `seq` would compute.

        Then it waits for that page instead of computing it twice: n choices of one prompt prefill
        once. It waits only for running sequences ahead of it in rank, which get on or leave the
        running ones: no deadlock, and no urgent sequence waits for a lesser one.
        """
        most = seq.most_cached
        full = (len(seq.tokens) - 1 if most is None else most) // PAGE_SIZE
        leaders = [
            other.table
            for other in self.running.snapshot()
            if other.num_pending > 1
            and other.rank < seq.rank
            and other.table.hashes[:1] == seq.table.hashes[:1]
        ]
        if not leaders or not full or not seq.table.hashes:
            return False
        page = self._memory.lookup(seq.table, seq.tokens, most) // PAGE_SIZE
        return page < full and any(
            other.num_computed // PAGE_SIZE <= page < len(other.hashes)
            and other.hashes[page] == seq.table.hashes[page]
            for other in leaders
        )


def _priority(seq: Sequence) -> int:
    return seq.request.priority
