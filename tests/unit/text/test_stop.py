from __future__ import annotations

from stoker.text.stop import StopMatch, StopMatcher


def test_without_stop_strings_text_passes() -> None:
    matcher = StopMatcher([], include=False)
    assert matcher.push("anything") == StopMatch("anything")
    assert matcher.flush() == ""


def test_the_stop_string_may_stay_in_the_text() -> None:
    matcher = StopMatcher(["END"], include=True)
    assert matcher.push("a E") == StopMatch("a ")
    assert matcher.push("ND b") == StopMatch("END", "END")


def test_the_first_to_end_wins_and_then_the_longest() -> None:
    assert StopMatcher(["abcd", "bc"], False).push("xabcd") == StopMatch("xa", "bc")
    assert StopMatcher(["b", "ab"], False).push("xab") == StopMatch("x", "ab")


def test_a_false_start_is_released_when_it_is_one() -> None:
    matcher = StopMatcher(["aab"], include=False)
    assert matcher.push("aa") == StopMatch("")
    assert matcher.push("a") == StopMatch("a")
    assert matcher.push("b") == StopMatch("", "aab")


def test_flush_gives_what_was_held() -> None:
    matcher = StopMatcher(["END"], include=False)
    matcher.push("the EN")
    assert matcher.flush() == "EN"
    assert matcher.flush() == ""
