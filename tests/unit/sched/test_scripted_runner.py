"""The audit of the scripted runner itself: it must see each kind of page bug."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stoker.core.plan import SampleSpec, SeqStep, StepPlan
from stoker.core.request import SamplingParams
from tests.support.scheduling import layout
from tests.support.scripted import KVMismatch, ScriptedRunner, by_hash, by_list

TOKENS = list(range(20))


def plan(
    start: int, end: int, *tables: Sequence[int], request_id: str = "a", tokens: list[int] = TOKENS
) -> StepPlan:
    spec = SampleSpec(SamplingParams(), 0, tokens, len(tokens)) if end == len(tokens) else None
    step = SeqStep(request_id, tokens[start:end], start, tuple(tables), spec)
    return StepPlan(1, (step,))


def runner(*windows: int | None) -> ScriptedRunner:
    return ScriptedRunner(by_hash(50), layout(*windows))


def test_a_sound_sequence_passes_whatever_its_chunks() -> None:
    for cut in range(1, 20):
        machine = runner(None, 5)
        machine.execute(plan(0, cut, [4, 5], [6, 7]))
        machine.execute(plan(cut, 20, [4, 5], [6, 7]))


def test_a_page_written_by_another_is_seen() -> None:
    machine = runner(None)
    machine.execute(plan(0, 19, [4, 5]))
    machine.execute(plan(0, 5, [4], request_id="b", tokens=[9] * 6))
    with pytest.raises(KVMismatch, match="position 0: page 4"):
        machine.execute(plan(19, 20, [4, 5]))


def test_a_page_of_another_prefix_is_seen() -> None:
    machine = runner(None)
    machine.execute(plan(0, 20, [4, 5], tokens=[3, *TOKENS[1:]]))
    with pytest.raises(KVMismatch, match="position 0: page 4"):
        machine.execute(plan(16, 20, [4, 6]))


def test_equal_tokens_after_another_prefix_are_seen() -> None:
    machine = runner(2)
    machine.execute(plan(0, 20, [4, 5], tokens=[3, *TOKENS[1:]]))
    with pytest.raises(KVMismatch, match="position 15"):
        machine.execute(plan(16, 20, [4, 6]))


def test_two_writers_of_one_page_are_seen() -> None:
    first, second = plan(0, 20, [4, 5]), plan(0, 6, [4], request_id="b", tokens=[9] * 6)
    with pytest.raises(KVMismatch, match="page 4"):
        runner(None).execute(StepPlan(1, first.seqs + second.seqs))


def test_one_page_for_two_groups_is_seen() -> None:
    with pytest.raises(KVMismatch, match="group 0"):
        runner(None, None).execute(plan(0, 20, [4, 5], [6, 5]))


def test_a_page_dropped_too_soon_is_seen_and_one_out_of_the_window_is_not_missed() -> None:
    machine = runner(5)
    machine.execute(plan(0, 19, [4, 5]))
    with pytest.raises(KVMismatch, match="no page for position 15"):
        machine.execute(plan(19, 20, [-1, 5]))
    long = list(range(25))
    machine = runner(5)
    machine.execute(plan(0, 24, [4, 5], tokens=long))
    machine.execute(plan(24, 25, [-1, 5], tokens=long))


def test_a_table_that_is_too_short_is_seen() -> None:
    with pytest.raises(KVMismatch, match="no page for position 16"):
        runner(None).execute(plan(0, 20, [4]))


def test_a_request_cannot_be_in_a_step_twice() -> None:
    step = plan(0, 20, [4, 5]).seqs[0]
    with pytest.raises(KVMismatch, match="twice"):
        runner(None).execute(StepPlan(1, (step, step)))


def test_the_script_by_hash_depends_on_history_seed_and_choice_and_steps_over_bans() -> None:
    draw = by_hash(1000)
    base = SampleSpec(SamplingParams(seed=1), 0, [1, 2], 1)
    others = [
        SampleSpec(SamplingParams(seed=2), 0, [1, 2], 1),
        SampleSpec(SamplingParams(seed=1), 1, [1, 2], 1),
        SampleSpec(SamplingParams(seed=1), 0, [1, 3], 1),
    ]
    assert len({draw("a", spec) for spec in [base, *others]}) == 4
    banned = SampleSpec(SamplingParams(seed=1), 0, [1, 2], 1, (draw("a", base),))
    assert draw("a", banned) == (draw("a", base) + 1) % 1000


def test_logprobs_and_errors_are_scripted() -> None:
    machine = ScriptedRunner(by_list({"a": [3]}), errors={"ab": "broken"})
    params = SamplingParams(logprobs=2)
    steps = tuple(
        SeqStep(request_id, [1], 0, (), SampleSpec(params, 0, [1], 1)) for request_id in ("a", "ab")
    )
    good, bad = machine.execute(StepPlan(7, steps)).seqs
    assert good.token_ids == (3,)
    assert good.logprobs is not None and good.logprobs[0].top_ids == (0, 1)
    assert (bad.token_ids, bad.error) == ((), "broken")
