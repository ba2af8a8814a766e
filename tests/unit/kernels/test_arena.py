from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.kernels.arena import ALIGNMENT, Life, place

LIVES = st.lists(
    st.builds(
        lambda start, length, size: Life(start, start + length, size),
        st.integers(0, 20),
        st.integers(0, 6),
        st.integers(0, 1000),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(lives=LIVES)
def test_what_lives_together_shares_no_byte(lives: list[Life]) -> None:
    offsets, total = place(lives)
    for i, (a, at_a) in enumerate(zip(lives, offsets, strict=True)):
        assert at_a % ALIGNMENT == 0 and at_a + a.size <= total
        for b, at_b in list(zip(lives, offsets, strict=True))[i + 1 :]:
            together = a.start <= b.end and b.start <= a.end
            assert not together or at_a + a.size <= at_b or at_b + b.size <= at_a


def test_dead_memory_is_used_again() -> None:
    chain = [Life(i, i + 1, 6400) for i in range(10)]
    assert place(chain)[1] == 2 * 6400
