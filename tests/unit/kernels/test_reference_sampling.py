"""What `sample_row` promises, on distributions small enough to work out by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from stoker.kernels.reference import philox4x32, sample_row, token_masses, uniform

WORDS = np.log(np.array([0.1, 0.4, 0.2, 0.3], dtype=np.float32))
"""Ids 0 to 3; most probable first: 1, 3, 2, 0."""


def _draw(u: float, logits: np.ndarray = WORDS, **changes: float) -> int:
    options = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": 0} | changes
    return sample_row(logits, u=u, **options)  # type: ignore[arg-type]


def _possible(**changes: float) -> set[int]:
    return {_draw(u, **changes) for u in np.linspace(0, 1, 200, endpoint=False)}


def test_the_inverse_cdf_runs_in_order_of_id() -> None:
    # Edges at 0.1, 0.5, 0.7.
    assert [_draw(u) for u in (0.0, 0.09, 0.11, 0.49, 0.51, 0.69, 0.71, 0.999)] == [
        0, 0, 1, 1, 2, 2, 3, 3,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"top_k": 2}, {1, 3}),
        ({"top_k": 9}, {0, 1, 2, 3}),
        ({"top_p": 0.39}, {1}),
        ({"top_p": 0.45}, {1, 3}),
        ({"top_p": 0.95}, {0, 1, 2, 3}),
        ({"min_p": 0.45}, {1, 2, 3}),
        ({"min_p": 1.0}, {1}),
        # top_p counts the mass of what top_k left: 0.4 of 0.7 is more than 0.55.
        ({"top_k": 2, "top_p": 0.55}, {1}),
        ({"top_p": 0.55}, {1, 3}),
        # min_p comes before top_p: without id 0 the mass is 0.9.
        ({"min_p": 0.45, "top_p": 0.76}, {1, 3}),
    ],
)
def test_what_is_kept(changes: dict[str, float], kept: set[int]) -> None:
    assert _possible(**changes) == kept


def test_ties_favour_the_lower_id() -> None:
    level = np.zeros(5, dtype=np.float32)
    assert _draw(0.9, level, temperature=0.0) == 0
    assert {_draw(u, level, top_k=2) for u in (0.1, 0.6, 0.99)} == {0, 1}
    assert {_draw(u, level, top_p=0.5) for u in (0.1, 0.5, 0.99)} == {0, 1, 2}


def test_a_banned_token_is_never_drawn() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf], dtype=np.float32)
    assert {_draw(u, logits) for u in (0.0, 0.5, 1 - 2.0**-53)} == {1}
    assert _draw(0.5, logits, temperature=0.0) == 1


def test_temperature_flattens_and_sharpens() -> None:
    draws = {
        t: Counter(_draw(uniform(1, 0, i), temperature=t) for i in range(2000)) for t in (0.5, 2.0)
    }
    for temperature, count in draws.items():
        weights = np.exp(WORDS.astype(np.float64) / temperature)
        expected = 2000 * weights / weights.sum()
        chi2 = sum((count[i] - expected[i]) ** 2 / expected[i] for i in range(4))
        assert chi2 < 16.3  # 99.9 % quantile with 3 degrees of freedom


def test_philox_equals_the_published_answers() -> None:
    """Known answers of Random123 1.14 (kat_vectors, philox4x32 10)."""
    full = 0xFFFFFFFF
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    cases = {
        ((0, 0, 0, 0), (0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((full,) * 4, (full,) * 2): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (pi, (0xA4093822, 0x299F31D0)): (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    }
    for (counter, key), words in cases.items():
        assert philox4x32(counter, key) == words  # type: ignore[arg-type]


def test_each_part_of_the_key_counts() -> None:
    base = uniform(1, 0, 5)
    others = [uniform(2, 0, 5), uniform(1, 1, 5), uniform(1, 0, 6), uniform(1 + 2**40, 0, 5)]
    others.append(uniform(1, 0, 5 + 2**40))
    assert len({base, *others}) == 6 and all(0 <= u < 1 for u in others)
    assert uniform(-1, 0, 5) == uniform(2**64 - 1, 0, 5)


def test_masses_are_powers_of_two() -> None:
    y = np.concatenate([np.linspace(-40.0, 0.0, 100_001), [-41.0, -np.inf]]).astype(np.float32)
    mass = token_masses(y)
    wanted = 2.0 ** (40 + y.astype(np.float64))
    np.testing.assert_allclose(mass[:-2], wanted[:-2], rtol=2.5e-7, atol=0.5)
    assert mass[100_000] == 2**40 and (mass[-2:] == mass[0]).all() and mass[0] == 1


def test_what_is_2_to_the_40_times_less_probable_is_never_drawn() -> None:
    logits = np.array([0.0, -27.72, -27.73], dtype=np.float32)  # 40 ln 2 is 27.726
    almost_one = 1 - 2.0**-53
    assert _draw(almost_one, logits) == 1 and _draw(almost_one, logits[[0, 2]]) == 0
    assert _draw(almost_one, logits, temperature=2.0) == 2
