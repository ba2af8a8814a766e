"""Who runs, how much, and who has to go; seen through the plans of a scheduler."""

from __future__ import annotations

from stoker.core.plan import StepPlan
from tests.support.scheduling import Engine, request


def shape(plan: StepPlan | None) -> dict[str, int]:
    assert plan is not None
    return {step.request_id: len(step.token_ids) for step in plan.seqs}


def test_a_prompt_is_cut_to_the_budget_and_decodes_ride_along() -> None:
    engine = Engine(eos=frozenset(), max_num_batched_tokens=32)
    engine.add(request("a", [1] * 5, max_tokens=9), request("b", [2] * 70, max_tokens=2))
    assert shape(engine.step()) == {"a": 5, "b": 27}
    assert shape(engine.step()) == {"a": 1, "b": 31}
    assert shape(engine.step()) == {"a": 1, "b": 12}
    assert shape(engine.step()) == {"a": 1, "b": 1}


def test_every_decode_gets_in_whatever_prompt_is_ahead_of_it() -> None:
    engine = Engine(eos=frozenset(), max_num_batched_tokens=32)
    engine.add(request("low", [1] * 5, max_tokens=9, priority=1))
    engine.step()
    engine.add(request("high", [2] * 100, max_tokens=2))
    assert shape(engine.step()) == {"high": 31, "low": 1}


def test_only_the_step_that_reaches_the_last_token_samples() -> None:
    engine = Engine(max_num_batched_tokens=32)
    engine.add(request("a", [1] * 40, max_tokens=2))
    first, second = engine.step(), engine.step()
    assert first is not None and first.seqs[0].sample is None
    assert second is not None and second.seqs[0].sample is not None
    assert second.seqs[0].start == 32


def test_seats_are_limited_and_filled_in_order() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=2)
    engine.add(*(request(name, [1], max_tokens=2) for name in "abc"))
    assert shape(engine.step()) == {"a": 1, "b": 1}
    engine.step()
    assert shape(engine.step()) == {"c": 1}


def test_a_higher_priority_takes_the_seat_of_the_latest_of_the_lowest() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=2)
    engine.add(*(request(name, [1] * 3, max_tokens=5, priority=1) for name in "ab"))
    engine.step()
    engine.add(request("c", [2] * 4, max_tokens=1))
    assert shape(engine.step()) == {"c": 4, "a": 1}
    assert shape(engine.step()) == {"a": 1, "b": 4}  # b computes its own output again
    assert engine.scheduler.stats.num_preemptions == 1


def test_an_equal_priority_takes_nothing() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=1)
    engine.add(request("a", [1], max_tokens=5), request("b", [2], max_tokens=1))
    for _ in range(5):
        assert shape(engine.step()) == {"a": 1}
    assert shape(engine.step()) == {"b": 1}


def test_the_latest_arrival_leaves_when_pages_run_out_and_is_not_in_that_step() -> None:
    engine = Engine(eos=frozenset(), num_pages=4, prefix_caching=False)
    engine.add(request("a", [1] * 30, max_tokens=34), request("b", [2] * 2, max_tokens=30))
    assert shape(engine.step()) == {"a": 30, "b": 2}
    while engine.scheduler.stats.num_preemptions == 0:
        plan = engine.step()
    assert shape(plan) == {"a": 1}
    assert engine.scheduler.stats.num_waiting == 1
    engine.finish()
    assert (len(engine.tokens("a")), len(engine.tokens("b"))) == (34, 30)


def test_nobody_is_preempted_in_vain() -> None:
    engine = Engine(eos=frozenset(), num_pages=8)
    engine.add(request("a", [1] * 30, max_tokens=30))
    engine.add(request("low", [2] * 2, max_tokens=40, priority=1))
    engine.step()
    # Even without `low` the pool has no room beside `a`, so `low` goes on.
    engine.add(request("high", [3] * 100, max_tokens=2))
    for _ in range(20):
        assert set(shape(engine.step())) == {"a", "low"}
    assert engine.scheduler.stats.num_preemptions == 0
    engine.finish()


def test_a_large_request_is_not_overtaken_by_smaller_ones() -> None:
    engine = Engine(eos=frozenset(), num_pages=8)
    engine.add(request("a", [1] * 30, max_tokens=30))
    engine.step()
    engine.add(request("large", [2] * 100, max_tokens=2), request("small", [3] * 2, max_tokens=2))
    assert shape(engine.step()) == {"a": 1}
    while not engine.events["large"]:
        engine.step()
    assert not engine.events["small"] or engine.events["small"][0].timing.scheduled >= (
        engine.events["large"][0].timing.scheduled
    )


def test_followers_wait_for_pages_that_a_leader_computes() -> None:
    engine = Engine(max_num_batched_tokens=32)
    prompt = [n % 7 for n in range(100)]
    engine.add(*(request(f"r{i}", prompt, max_tokens=2, n=3, choice=i, seed=5) for i in range(3)))
    assert shape(engine.step()) == {"r0": 32}
    engine.add(request("other", [9] * 4, max_tokens=8, ignore_eos=True))
    assert shape(engine.step()) == {"r0": 32}
    engine.finish()
    # 6 full pages of 100 tokens are shared; each follower computes the last 4 and one output.
    assert [engine.runner.computed[f"r{i}"] for i in range(3)] == [101, 5, 5]
    assert engine.end("r1").num_cached_tokens == 96


def test_a_held_follower_does_not_block_others() -> None:
    engine = Engine(eos=frozenset(), max_num_batched_tokens=64)
    prompt = [n % 7 for n in range(150)]
    engine.add(request("a", prompt, max_tokens=2), request("b", [*prompt, 1], max_tokens=2))
    engine.step()
    engine.add(request("c", [9] * 4, max_tokens=8))
    engine.step()
    assert shape(engine.step()) == {"a": 22, "c": 4}


def test_a_follower_goes_on_by_itself_when_its_leader_is_aborted() -> None:
    engine = Engine(max_num_batched_tokens=32)
    prompt = [n % 7 for n in range(100)]
    engine.add(request("a", prompt, max_tokens=2), request("b", prompt, max_tokens=2))
    engine.step()
    engine.abort("a")
    assert shape(engine.step()) == {"b": 32}
    engine.finish()
    assert engine.end("b").num_cached_tokens == 32


def test_an_urgent_follower_does_not_wait_for_a_lesser_leader() -> None:
    engine = Engine(max_num_batched_tokens=32)
    prompt = [n % 7 for n in range(100)]
    engine.add(request("a", prompt, max_tokens=2, priority=1))
    engine.step()
    engine.add(request("b", prompt, max_tokens=2))
    assert shape(engine.step()) == {"b": 32}
    engine.finish()


def test_nobody_behind_a_preempted_sequence_takes_its_pages() -> None:
    engine = Engine(eos=frozenset(), num_pages=4, prefix_caching=False)
    engine.add(request("a", [1] * 30, max_tokens=30), request("b", [2] * 17, max_tokens=30))
    engine.add(request("c", [3] * 2, max_tokens=1))
    while engine.scheduler.stats.num_preemptions == 0:
        plan = engine.step()
    # `b` gave two pages, `a` took one: the other is not for `c`, which arrived after `b`.
    assert shape(plan) == {"a": 1}
    assert engine.memory.stats.free == 1


def test_the_token_reserved_for_a_victim_is_given_to_others() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=2, max_num_batched_tokens=3)
    engine.add(*(request(name, [1], max_tokens=9, priority=1) for name in "ab"))
    engine.step()
    engine.add(request("high", [2] * 10, max_tokens=1))
    assert shape(engine.step()) == {"high": 2, "a": 1}


def test_an_urgent_request_gets_in_where_decodes_take_the_whole_budget() -> None:
    engine = Engine(eos=frozenset(), max_num_seqs=2, max_num_batched_tokens=2)
    engine.add(*(request(name, [1], max_tokens=9, priority=1) for name in "ab"))
    engine.step()
    engine.add(request("high", [2] * 10, max_tokens=1))
    assert shape(engine.step()) == {"high": 1, "a": 1}
