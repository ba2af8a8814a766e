"""Stop strings on text that comes in pieces.

Works on characters alone and knows no tokens. Each stop string has the automaton of Knuth, Morris
and Pratt (1977): its state is the length of the longest end of the text so far that may still
become the string. The longest of these states is what must be held back, and not a character more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopMatch:
    """Text that is safe to show, and the stop string that ended it, where one did."""

    text: str
    matched: str | None = None


class StopMatcher:
    """Finds the first of several stop strings, wherever the text is cut into pieces.

    The stop string whose last character comes first wins; of several that end there, the longest.
    (Waiting for a longer one that began earlier would make the end depend on text not yet there.)
    """

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        self._automata = [_Automaton(stop) for stop in stops if stop]
        self._include = include
        self._held = ""
        self._matched: str | None = None

    def push(self, text: str) -> StopMatch:
        """Take more text; return what can no longer be part of a stop string.

        After a match all further text is dropped.
        """
        if self._matched is not None:
            return StopMatch("", self._matched)
        if not self._automata:
            return StopMatch(text)
        for i, char in enumerate(text):
            ended = [a.stop for a in self._automata if a.advance(char)]
            if ended:
                return self._end(self._held + text[: i + 1], max(ended, key=len))
        return StopMatch(self._hold(self._held + text))

    def flush(self) -> str:
        """The text ended without a match: what was held back. Empty after a match."""
        held, self._held = self._held, ""
        return held

    def _hold(self, text: str) -> str:
        shown = len(text) - max(automaton.state for automaton in self._automata)
        self._held = text[shown:]
        return text[:shown]

    def _end(self, text: str, stop: str) -> StopMatch:
        self._held = ""
        self._matched = stop
        return StopMatch(text if self._include else text.removesuffix(stop), stop)


class _Automaton:
    """One stop string: `state` of its characters are the end of the text so far."""

    __slots__ = ("_fallback", "state", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.state = 0
        # fallback[k]: the longest proper prefix of the string that ends its first k characters.
        # Grows as the text gets further into the string, so a huge stop string costs nothing.
        self._fallback = [0, 0]

    def advance(self, char: str) -> bool:
        """Take one character; True when the whole string has just been seen."""
        self.state = self._next(self.state, char)
        if self.state == len(self._fallback):
            self._fallback.append(self._next(self._fallback[-1], char))
        return self.state == len(self.stop)

    def _next(self, state: int, char: str) -> int:
        while state and self.stop[state] != char:
            state = self._fallback[state]
        return state + 1 if self.stop[state] == char else 0
