"""EngineCore: one bad request ends that request, one bad step ends that step's sequences."""

from __future__ import annotations

import pytest

from stoker.core.errors import EngineDead
from stoker.core.plan import StepPlan, StepResult
from stoker.core.request import FinishReason, Request, SamplingParams, TokenEvent
from stoker.engine.admission import expand
from stoker.engine.core import MAX_STEP_FAILURES, EngineCore
from tests.support.engine import RAISE, VOCAB, FaultyRunner, Scenario, build_scripted


def make(**scenario: int) -> EngineCore:
    core, _ = build_scripted(Scenario(audit=True, **scenario))
    return core


def request(name: str, prompt: bytes = b"hello", max_tokens: int = 4) -> Request:
    params = SamplingParams(max_tokens=max_tokens)
    return Request(id=name, prompt_token_ids=list(prompt), params=params)


def run(core: EngineCore, *requests: Request) -> dict[str, list[TokenEvent]]:
    for r in requests:
        core.submit(r)
    events: dict[str, list[TokenEvent]] = {}
    while core.has_work:
        for event in core.step():
            events.setdefault(event.request_id, []).append(event)
    core.check_totals()
    return events


def tokens(events: list[TokenEvent]) -> list[int]:
    return [token for event in events for token in event.token_ids]


def test_requests_run_to_their_length() -> None:
    events = run(make(), request("a"), request("b", b"other", 7))
    assert {name: len(tokens(e)) for name, e in events.items()} == {"a": 4, "b": 7}
    assert all(e[-1].finish_reason is FinishReason.LENGTH for e in events.values())


def test_ids_begin_with_the_clients_and_are_new_even_for_the_same_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    core, info = build_scripted(Scenario())
    params = SamplingParams(max_tokens=2, n=2)
    twice = [r for _ in range(2) for r in expand([RAISE], params, info, request_id="mine")]
    assert len({r.id for r in twice}) == 4
    run(core, *twice)
    [failure] = [record for record in caplog.records if "step" in record.getMessage()]
    assert all(r.id.startswith("mine.") and r.id in failure.getMessage() for r in twice)


def test_a_reset_forgets_prefixes_and_frees_pages() -> None:
    core = make()
    run(core, request("first", b"x" * 40))
    assert core.stats.pages_cached == 2
    core.reset_prefix_cache()
    assert core.stats.pages_cached == 0
    again = run(core, request("second", b"x" * 40))
    assert again["second"][-1].num_cached_tokens == 0


@pytest.mark.parametrize(
    ("bad", "param"),
    [
        (request("bad", b""), "prompt"),
        (Request(id="bad", prompt_token_ids=[VOCAB], params=SamplingParams()), "prompt"),
        (Request(id="bad", prompt_token_ids=[1], params=SamplingParams(top_p=0.0)), "top_p"),
        (request("bad", b"x" * 600), "prompt"),
    ],
)
def test_a_refusal_is_an_event_and_the_others_go_on(bad: Request, param: str) -> None:
    events = run(make(), bad, request("good"))
    refusal = events["bad"][-1]
    assert refusal.finish_reason is FinishReason.ERROR
    assert refusal.error is not None
    assert (refusal.error.status, refusal.error.param) == (400, param)
    assert len(tokens(events["good"])) == 4


def test_a_request_that_breaks_the_scheduler_is_refused_without_its_words() -> None:
    broken = Request(id="bad", prompt_token_ids=None, params=SamplingParams())  # type: ignore[arg-type]
    events = run(make(), broken, request("good"))
    assert events["bad"][0].error is not None
    assert events["bad"][0].error.status == 500
    assert len(tokens(events["good"])) == 4


def test_a_failed_step_ends_its_sequences_alone() -> None:
    core = make(max_num_seqs=2, max_num_batched_tokens=8)
    events = run(core, request("in step", b"hello"), request("bad", bytes([RAISE, 0])))
    assert {e[-1].finish_reason for e in events.values()} == {FinishReason.ERROR}
    assert "RuntimeError" in (events["bad"][-1].error or pytest.fail("no error")).message
    later = run(core, request("later"))
    assert len(tokens(later["later"])) == 4


def test_failures_in_a_row_mean_that_the_engine_is_broken() -> None:
    core = make()
    with pytest.raises(EngineDead, match=f"{MAX_STEP_FAILURES} steps in a row"):
        for index in range(MAX_STEP_FAILURES):
            run(core, request(f"bad{index}", bytes([RAISE, 0])))


def test_a_good_step_between_forgives_failures() -> None:
    core = make()
    for index in range(2 * MAX_STEP_FAILURES):
        run(core, request(f"bad{index}", bytes([RAISE, 0])))
        run(core, request(f"good{index}"))


def test_a_step_that_is_interrupted_ends_its_sequences_and_the_core_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = make()
    core.submit(request("a"))
    with monkeypatch.context() as patch:
        patch.setattr(FaultyRunner, "execute", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            core.step()
    assert not core.has_work
    core.check_totals()
    assert len(tokens(run(core, request("b"))["b"])) == 4


def _interrupt(runner: FaultyRunner, plan: StepPlan) -> StepResult:
    raise KeyboardInterrupt


@pytest.mark.parametrize("steps", [0, 1, 5], ids=["queued", "in prefill", "decoding"])
def test_abort_frees_every_page_at_once(steps: int) -> None:
    core = make(max_num_batched_tokens=8, max_num_seqs=4)
    core.submit(request("a", bytes(range(3, 30)), max_tokens=50))
    for _ in range(steps):
        core.step()
    assert (core.stats.pages_held > 0) == (steps > 0)
    assert [e.finish_reason for e in core.abort(["a", "unknown"])] == [FinishReason.ABORT]
    assert core.stats.pages_held == 0
    assert not core.has_work
    core.check_totals()


def test_stats_count_what_was_done() -> None:
    core = make()
    run(core, request("a"), request("b"))
    stats = core.stats
    assert (stats.prompt_tokens, stats.generation_tokens) == (10, 8)
    assert stats.num_steps >= 4
    assert stats.pages_free + stats.pages_cached == 256
