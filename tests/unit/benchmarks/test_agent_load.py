"""The load generator against a scripted server: what the sessions ask, and what is counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.agent_load import Load, Result, Turn, run_load
from tests.support.api_app import Api
from tests.support.fake_engine import FakeEngine, FakeTokenizer
from tests.support.http_server import serving

LOAD = Load(
    sessions=3, turns=2, system_words=5, task_words=3, tool_words=4, max_tokens=2, stagger_s=0.0
)


def run(load: Load, **engine: Any) -> tuple[Result, list[str]]:
    """The result, and the prompts as they reached the engine, behind BOS."""
    api = Api(engine=FakeEngine(FakeTokenizer(), max_model_len=4096, **engine))
    with serving(api) as server:
        result = asyncio.run(run_load(server.url, load))
    return result, [bytes(call.prompt_token_ids[1:]).decode() for call in api.engine.calls]


def test_prompts_share_the_system_part_and_grow_by_answer_and_tool() -> None:
    result, prompts = run(LOAD)
    assert len(result.turns) == len(prompts) == 6
    firsts, seconds = prompts[:3], prompts[3:]
    assert len({prompt.partition("\n")[0] for prompt in prompts}) == 1
    assert len(set(firsts)) == 3
    for second in seconds:
        (before,) = (first for first in firsts if second.startswith(first))
        assert second.removeprefix(before).startswith("Hi\nTool: ")


def test_tokens_are_counted_as_the_server_reports_them() -> None:
    result, prompts = run(LOAD, cached_tokens=7)
    assert [turn.output_tokens for turn in result.turns] == [2] * 6
    assert sorted(turn.prompt_tokens for turn in result.turns) == sorted(
        len(p) + 1 for p in prompts
    )
    assert {turn.cached_tokens for turn in result.turns} == {7}
    assert result.throughput == pytest.approx(12 / result.wall_s)


def test_time_to_first_token_does_not_hold_the_rest() -> None:
    result, _ = run(replace(LOAD, turns=1), first_step_s=0.05, step_s=2.0)
    assert all(0.05 <= turn.ttft_s < 2.0 for turn in result.turns)


def test_no_turn_starts_after_the_deadline() -> None:
    late = Load(sessions=2, turns=5, max_tokens=1, stagger_s=0.0, deadline_s=3.0, system_words=2)
    result, _ = run(late, first_step_s=1.6)
    assert 2 <= len(result.turns) <= 4


def test_a_refused_turn_is_an_error_and_ends_its_session() -> None:
    api = Api(engine=FakeEngine(FakeTokenizer(), max_model_len=16))
    with serving(api) as server:
        result = asyncio.run(run_load(server.url, LOAD))
    assert not result.turns
    assert len(result.errors) == 3 and "HTTP 400" in result.errors[0]
    assert result.summary()["throughput"] == 0.0


def test_other_hosts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"not on 127\.0\.0\.1"):
        asyncio.run(run_load("http://example.com", LOAD))


def test_percentiles_are_of_the_turns() -> None:
    result = Result(turns=[Turn(float(second), 1, 0, 1) for second in range(1, 11)], wall_s=1.0)
    assert (result.ttft(0.5), result.ttft(0.9)) == (6.0, 10.0)
