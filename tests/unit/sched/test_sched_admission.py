"""What can never run is refused at once, with both numbers; what passes can run alone."""

from __future__ import annotations

import pytest

from stoker.core.errors import ContextLengthExceeded, ExceedsCapacity, InvalidRequest
from stoker.sched.admission import Admission, max_request_tokens
from tests.support.scheduling import VOCAB, Engine, limits, request


@pytest.mark.parametrize(
    ("windows", "num_pages", "expected"),
    [
        ((None,), 10, 160),
        ((None,), 100, 256),  # never above max_model_len
        ((None, None), 10, 80),
        # A window of 16 and steps of 32 hold at most 4 pages: 6 are left for the full group.
        ((None, 16), 10, 96),
        ((16,), 4, 256),
        ((None, 16), 1, 0),
    ],
)
def test_max_request_tokens(windows: tuple[int | None, ...], num_pages: int, expected: int) -> None:
    assert max_request_tokens(limits(windows, num_pages=num_pages)) == expected


def test_capacity_is_refused_with_both_numbers() -> None:
    admission = Admission(limits(num_pages=4))
    assert admission.admit(request("a", [1] * 60, max_tokens=4)) == 64
    with pytest.raises(ExceedsCapacity, match=r"need 65 tokens.*at most 64") as refusal:
        admission.admit(request("a", [1] * 60, max_tokens=5))
    assert refusal.value.param == "max_tokens"
    with pytest.raises(ExceedsCapacity, match=r"need 65 tokens.*at most 64") as refusal:
        admission.admit(request("a", [1] * 64))
    assert refusal.value.param == "prompt"


def test_without_max_tokens_the_output_takes_what_is_left() -> None:
    assert Admission(limits()).admit(request("a", [1] * 10)) == 256
    assert Admission(limits(num_pages=4)).admit(request("a", [1] * 10)) == 64


def test_max_tokens_beyond_the_context_is_cut() -> None:
    assert Admission(limits()).admit(request("a", [1] * 10, max_tokens=100_000)) == 256


@pytest.mark.parametrize("length", [255, 256, 257])
def test_prompts_round_the_context_length(length: int) -> None:
    admission = Admission(limits())
    if length < 256:
        assert admission.admit(request("a", [1] * length)) == 256
        return
    with pytest.raises(ContextLengthExceeded, match=f"{length} tokens.*256"):
        admission.admit(request("a", [1] * length))


@pytest.mark.parametrize(
    ("prompt", "fields", "param"),
    [
        ([], {}, "prompt"),
        ([VOCAB], {}, "prompt"),
        ([-1], {}, "prompt"),
        ([1], {"temperature": 3.0}, "temperature"),
        ([1], {"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ([1], {"stop_token_ids": (VOCAB,)}, "stop_token_ids"),
        ([1], {"n": 2, "choice": 2}, "n"),
    ],
)
def test_the_door_names_the_parameter(
    prompt: list[int], fields: dict[str, object], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Admission(limits()).admit(request("a", prompt, **fields))
    assert refusal.value.param == param


@pytest.mark.parametrize("windows", [(None,), (None, 20), (20,), (33, 5, None)])
@pytest.mark.parametrize("num_pages", [7, 12, 20])
def test_the_longest_request_runs_to_its_end_alone(
    windows: tuple[int | None, ...], num_pages: int
) -> None:
    engine = Engine(eos=frozenset(), windows=windows, num_pages=num_pages)
    longest = max_request_tokens(engine.limits)
    engine.add(request("a", [1] * (longest // 2)))
    engine.finish()
    assert len(engine.tokens("a")) == longest - longest // 2
    assert engine.scheduler.stats.num_preemptions == 0
