"""The promise at scheduler level: batch, chunk, cache and preemption change no output token."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.request import Request
from tests.support.scheduling import VOCAB, Engine, alone, request

PROMPT = [(5 * n * n + 3) % VOCAB for n in range(70)]


@st.composite
def batches(draw: st.DrawFn) -> list[Request]:
    lengths = draw(st.lists(st.integers(1, 70), min_size=1, max_size=6))
    return [
        request(
            f"r{i}",
            PROMPT[:length],
            max_tokens=draw(st.integers(1, 25)),
            seed=draw(st.integers(0, 1)),
            priority=draw(st.integers(0, 1)),
        )
        for i, length in enumerate(lengths)
    ]


@given(
    batches(),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 60),
    st.integers(12, 40),
    st.sampled_from([(None,), (20,), (None, 17)]),
)
@settings(max_examples=60, deadline=None)
def test_outputs_depend_on_the_request_alone(
    items: list[Request],
    caching: bool,
    seats: int,
    extra: int,
    pages: int,
    windows: tuple[int | None, ...],
) -> None:
    engine = Engine(
        prefix_caching=caching,
        windows=windows,
        num_pages=pages,
        max_num_seqs=seats,
        max_num_batched_tokens=seats + extra,
    )
    engine.add(*items)
    engine.finish()
    for item in items:
        assert engine.tokens(item.id) == alone(item)


@given(batches(), st.integers(7, 16))
@settings(max_examples=60, deadline=None)
def test_the_first_in_rank_is_never_preempted(items: list[Request], pages: int) -> None:
    """So the engine always gets on: what it computes first for somebody, it computes once."""
    engine = Engine(prefix_caching=False, num_pages=pages, max_num_seqs=6)
    engine.add(*items)
    first = min(items, key=lambda item: item.priority)
    engine.finish()
    computed = len(first.prompt_token_ids) + len(engine.tokens(first.id)) - 1
    assert engine.runner.computed[first.id] == computed
