"""run_batch: offline generation over the same core and the same text rules."""

from __future__ import annotations

import pytest

from stoker.core.errors import StokerError
from stoker.core.request import FinishReason, Output, SamplingParams
from stoker.engine.batch import Completion, run_batch
from tests.support.engine import EOS, RAISE, ByteTokenizer, Scenario, build_scripted


def complete(
    prompts: list[tuple[bytes, SamplingParams]], scenario: Scenario, seen: list[Output]
) -> list[Completion]:
    core, info = build_scripted(scenario)
    return run_batch(
        core,
        info,
        ByteTokenizer(),  # type: ignore[arg-type]
        [(list(prompt), params) for prompt, params in prompts],
        seen.append,
    )


def test_completions_come_in_the_order_of_prompts_with_all_choices() -> None:
    seen: list[Output] = []
    params = [SamplingParams(max_tokens=9), SamplingParams(max_tokens=3, n=3)]
    first, second = complete([(b"one", params[0]), (b"two", params[1])], Scenario(audit=True), seen)
    assert first.prompt_token_ids == list(b"one")
    assert len(first.text) == 9
    assert [c.choice for c in second.choices] == [0, 1, 2]
    assert len({c.text for c in second.choices}) == 3, "choices under one seed differ"
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (3, 9)
    assert sum(len(o.token_ids) for o in seen) == 18


def test_an_answer_does_not_depend_on_its_company() -> None:
    prompts = [(bytes([b] * 20), SamplingParams(max_tokens=30)) for b in range(3, 13)]
    tight = Scenario(audit=True, num_pages=8, max_num_seqs=4, max_num_batched_tokens=16)
    together = complete(prompts, tight, [])
    alone = [complete([prompt], Scenario(), [])[0] for prompt in prompts]
    assert [c.text for c in together] == [c.text for c in alone]


def test_a_stop_string_ends_the_choice_in_the_core_too() -> None:
    seen: list[Output] = []
    scenario = Scenario(answer="one two three four five six")
    params = SamplingParams(stop=(" three",), max_tokens=200)
    (completion,) = complete([(b"count", params)], scenario, seen)
    choice = completion.choices[0]
    assert choice.text == "one two"
    assert (choice.finish_reason, choice.stop_reason) == (FinishReason.STOP, " three")
    assert choice.usage.completion_tokens == len("one two three")


def test_end_of_sequence_ends_the_choice() -> None:
    (completion,) = complete([(b"x", SamplingParams())], Scenario(answer="bye"), [])
    assert completion.text == "bye"
    assert completion.choices[0].token_ids[-1] == EOS


def test_after_an_error_the_core_is_empty_and_usable() -> None:
    core, info = build_scripted(Scenario())
    tokenizer = ByteTokenizer()
    good = (list(b"good"), SamplingParams(max_tokens=5))
    bad = ([RAISE], SamplingParams(max_tokens=5))
    with pytest.raises(StokerError):
        run_batch(core, info, tokenizer, [good, bad], lambda _: None)  # type: ignore[arg-type]
    assert not core.has_work
    (again,) = run_batch(core, info, tokenizer, [good], lambda _: None)  # type: ignore[arg-type]
    assert len(again.text) == 5


def test_a_keyboard_interrupt_leaves_nothing_behind() -> None:
    core, info = build_scripted(Scenario())

    def interrupt(_: Output) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch(
            core,
            info,
            ByteTokenizer(),  # type: ignore[arg-type]
            [(list(b"long"), SamplingParams(max_tokens=100))],
            interrupt,
        )
    assert not core.has_work
    core.check_totals()
