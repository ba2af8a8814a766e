"""The life of a request: results, finish reasons, aborts, errors, events and counters."""

from __future__ import annotations

import pytest

from stoker.core.errors import InvalidRequest, StokerError
from stoker.core.plan import SeqResult, StepPlan, StepResult
from stoker.core.request import FinishReason, TokenLogprobs
from tests.support.scheduling import EOS, VOCAB, Engine, request
from tests.support.scripted import by_list


def test_end_of_sequence_ends_with_its_token() -> None:
    engine = Engine(by_list({"a": [1, 2, EOS, 3]}))
    engine.add(request("a", [5]))
    engine.finish()
    assert engine.tokens("a") == [1, 2, EOS]
    assert engine.end("a").finish_reason is FinishReason.STOP
    assert engine.end("a").stop_token_id == EOS


def test_ignore_eos_goes_on_but_stop_ids_still_end() -> None:
    engine = Engine(by_list({"a": [1, EOS, 3, 4]}))
    engine.add(request("a", [5], ignore_eos=True, stop_token_ids=(3,)))
    engine.finish()
    assert engine.tokens("a") == [1, EOS, 3]
    assert engine.end("a").stop_token_id == 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"max_tokens": 3}, FinishReason.LENGTH), ({"max_tokens": 4}, FinishReason.STOP)],
)
def test_max_tokens_ends_with_length_and_stop_wins_at_the_same_token(
    fields: dict[str, int], reason: FinishReason
) -> None:
    engine = Engine(by_list({"a": [1, 2, 3, EOS]}))
    engine.add(request("a", [5], **fields))
    engine.finish()
    assert engine.end("a").finish_reason is reason
    assert len(engine.tokens("a")) == fields["max_tokens"]
    assert engine.end("a").stop_token_id == (EOS if reason is FinishReason.STOP else None)


def test_the_context_ends_with_length() -> None:
    engine = Engine(by_list({"a": [1]}), max_model_len=20)
    engine.add(request("a", [5] * 15, max_tokens=100))
    engine.finish()
    assert len(engine.tokens("a")) == 5
    assert engine.end("a").finish_reason is FinishReason.LENGTH


def test_min_tokens_bans_what_would_end_the_output_until_then() -> None:
    engine = Engine()
    engine.add(request("a", [5], min_tokens=2, max_tokens=4, stop_token_ids=(3,)))
    engine.add(request("b", [6], min_tokens=2, max_tokens=4, stop_token_ids=(3,), ignore_eos=True))
    engine.finish()
    banned = {"a": [], "b": []}  # type: dict[str, list[tuple[int, ...]]]
    for plan in engine.runner.plans:
        for step in plan.seqs:
            assert step.sample is not None
            banned[step.request_id].append(step.sample.banned_token_ids)
    assert banned["a"][:3] == [(3, EOS), (3, EOS), ()]
    assert banned["b"][:3] == [(3,), (3,), ()]  # nothing to ban: the end of sequence ends nothing


def test_a_runner_that_draws_a_banned_token_does_not_end_the_output() -> None:
    engine = Engine(by_list({"a": [EOS, EOS, EOS]}))
    engine.add(request("a", [5], min_tokens=2))
    engine.finish()
    assert engine.tokens("a") == [EOS, EOS, EOS]


def test_several_tokens_of_one_step_end_at_the_first_that_ends() -> None:
    engine = Engine()
    engine.add(request("a", [5], logprobs=0))
    plan = engine.scheduler.schedule()
    assert plan is not None
    drawn = (1, 2, EOS, 4)
    logprobs = tuple(TokenLogprobs(token, -1.0) for token in drawn)
    events = engine.scheduler.commit(
        plan, StepResult(plan.step_id, (SeqResult("a", drawn, logprobs),))
    )
    assert events[0].token_ids == (1, 2, EOS)
    assert events[0].logprobs == logprobs[:3]
    assert events[0].finish_reason is FinishReason.STOP
    assert engine.scheduler.stats.generation_tokens == 3


def test_an_id_can_be_used_again_only_after_its_end() -> None:
    engine = Engine()
    engine.add(request("a", [5], max_tokens=1))
    with pytest.raises(InvalidRequest) as refusal:
        engine.scheduler.add(request("a", [6]))
    assert refusal.value.param == "id"
    engine.finish()
    engine.add(request("a", [6], max_tokens=2))
    engine.finish()
    assert len(engine.tokens("a")) == 2


def test_an_error_ends_one_sequence_and_publishes_nothing_of_its_step() -> None:
    engine = Engine(errors={"bad": "logits are not finite"})
    engine.add(request("bad", [1] * 20, max_tokens=3), request("good", [2] * 10, max_tokens=3))
    engine.finish()
    end = engine.end("bad")
    assert end.finish_reason is FinishReason.ERROR
    assert end.error is not None
    assert (end.error.code, end.error.message) == ("request_failed", "logits are not finite")
    assert len(engine.tokens("good")) == 3
    assert engine.memory.stats.cached == 0


@pytest.mark.parametrize("count", [0, 1])
def test_a_draw_that_was_not_asked_for_or_is_missing_is_an_error(count: int) -> None:
    engine = Engine(max_num_batched_tokens=8)
    engine.add(request("a", [1] * (4 if count == 0 else 20)))
    plan = engine.scheduler.schedule()
    assert plan is not None
    result = StepResult(plan.step_id, (SeqResult("a", (3,) * count),))
    events = engine.scheduler.commit(plan, result)
    assert [event.finish_reason for event in events] == [FinishReason.ERROR]
    assert not engine.scheduler.has_work


def test_abort_ends_waiting_and_running_at_once_and_ignores_strangers() -> None:
    engine = Engine(max_num_seqs=1)
    engine.add(request("a", [1] * 20), request("b", [2] * 20))
    engine.step()
    events = engine.abort("b", "nobody", "a", "a")
    assert [event.request_id for event in events] == ["b", "a"]
    assert {event.finish_reason for event in events} == {FinishReason.ABORT}
    assert not engine.scheduler.has_work
    engine.scheduler.check_integrity()
    assert engine.memory.stats.held == 0


def test_pages_of_an_aborted_step_are_freed_when_it_is_committed() -> None:
    engine = Engine()
    engine.add(request("a", [1] * 20), request("b", [2] * 2, max_tokens=2))
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.abort("a")
    assert engine.memory.stats.held == 3
    engine.add(request("a", [3] * 4, max_tokens=1))  # the id is free, the pages are not
    engine.take(engine.scheduler.commit(plan, engine.runner.execute(plan)))
    assert engine.memory.stats.held == 1
    assert engine.memory.stats.cached == 0  # nothing of it was published
    engine.finish()
    assert len(engine.tokens("a")) == 1


def test_a_new_request_under_the_id_of_an_aborted_one_can_be_aborted_too() -> None:
    engine = Engine()
    engine.add(request("a", [1] * 20))
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.abort("a")
    engine.add(request("a", [3] * 4))
    engine.abort("a")
    assert engine.scheduler.commit(plan, engine.runner.execute(plan)) == []
    engine.scheduler.check_integrity()
    assert engine.memory.stats.held == 0


def test_steps_are_committed_in_turn() -> None:
    engine = Engine()
    engine.add(request("a", [1]))
    plan = engine.scheduler.schedule()
    assert plan is not None
    with pytest.raises(StokerError, match="step 1 is not committed"):
        engine.scheduler.schedule()
    for wrong in (StepResult(9, (SeqResult("a", (1,)),)), StepResult(1, (SeqResult("b", (1,)),))):
        with pytest.raises(StokerError, match="in flight"):
            engine.scheduler.commit(plan, wrong)
    with pytest.raises(StokerError, match="in flight"):
        engine.scheduler.commit(StepPlan(1, ()), StepResult(1, ()))
    engine.scheduler.commit(plan, engine.runner.execute(plan))
    assert engine.scheduler.schedule() is not None


def test_nothing_to_do_makes_no_step() -> None:
    engine = Engine()
    assert engine.step() is None
    assert engine.scheduler.stats.num_steps == 0


def test_timing_counts_up_and_survives_preemption() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=1)
    engine.add(request("a", [1] * 3, max_tokens=4, priority=1))
    engine.step()
    engine.add(request("b", [1] * 3, max_tokens=1))
    engine.finish()
    first, last = engine.events["a"][0].timing, engine.end("a").timing
    assert 0.0 < first.scheduled < first.first_token
    assert first.finished == 0.0
    assert (last.scheduled, last.first_token) == (first.scheduled, first.first_token)
    assert last.finished > engine.end("b").timing.finished


def test_cached_tokens_are_those_of_the_first_admission() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=1)
    prompt = [n % 7 for n in range(40)]
    engine.add(request("a", prompt, max_tokens=1))
    engine.finish()
    engine.add(request("b", prompt, max_tokens=20, priority=1))
    engine.step()
    engine.add(request("c", [3], max_tokens=1))
    engine.finish()
    assert engine.end("a").num_cached_tokens == 0
    assert {event.num_cached_tokens for event in engine.events["b"]} == {32}
    stats = engine.scheduler.stats
    assert (stats.prefix_queries, stats.prefix_hits) == (81, 32)
    assert (stats.num_preemptions, stats.prompt_tokens, stats.generation_tokens) == (1, 81, 22)


def test_stats_have_the_names_of_the_wire() -> None:
    from dataclasses import fields

    from stoker.engine.wire import Stats

    stats = Engine().scheduler.stats
    values = {field.name: getattr(stats, field.name) for field in fields(stats)}
    assert set(values) == set(Stats.__struct_fields__)
    assert Stats(**values).pages_free == 64


def test_integrity_notices_pages_that_nobody_holds() -> None:
    engine = Engine()
    table = engine.memory.open([1] * 20, None)
    engine.memory.allocate(table, 20)
    with pytest.raises(StokerError, match="2 pages are held"):
        engine.scheduler.check_integrity()


def test_min_tokens_must_leave_a_token_to_draw() -> None:
    engine = Engine()
    others = tuple(i for i in range(VOCAB) if i != EOS)
    with pytest.raises(InvalidRequest, match="names every token"):
        engine.add(request("a", [5], min_tokens=1, stop_token_ids=others))
    engine.add(request("b", [5], min_tokens=1, stop_token_ids=others, ignore_eos=True))
    engine.finish()
    assert engine.tokens("b")[0] == EOS
