"""Ratios of a benchmark: which figures are compared, and what a missing one does."""

from __future__ import annotations

from benchmarks.peers.cells import CELLS
from benchmarks.peers.report import Samples, server_ratios, speed_ratios, table


def samples(name: str, kind: str, speed: float) -> Samples:
    row = Samples(name, kind)
    for round_ in (0.5, 1.0, 9.0):  # the median is what counts, not the mean
        row.add(dict.fromkeys(CELLS, speed * round_))
    return row


def test_best_peer_is_the_fastest_in_any_format() -> None:
    rows = [
        samples("ours", "Q4_1", 300),
        samples("llama.cpp", "Q4_1", 50),
        samples("llama.cpp", "Q4_0", 100),
        samples("ik_llama.cpp", "Q4_0", 150),
    ]
    ratios = speed_ratios(rows, "Q4_1")
    assert ratios["vs_best_peer"] == dict.fromkeys(CELLS, 2.0)
    assert ratios["vs_llamacpp_same_file"] == dict.fromkeys(CELLS, 6.0)


def test_engines_in_other_formats_than_four_bits_are_no_bar() -> None:
    rows = [
        samples("ours", "Q4_1", 100),
        samples("llama.cpp", "Q4_1", 50),
        samples("transformers", "f32", 1000),
    ]
    assert speed_ratios(rows, "Q4_1")["vs_best_peer"]["decode1"] == 2.0


def test_each_cell_has_its_own_best_peer() -> None:
    one, other = Samples("llama.cpp", "Q4_0"), Samples("ik_llama.cpp", "Q4_0")
    one.add({"prefill": 100.0, "decode1": 40.0})
    other.add({"prefill": 200.0, "decode1": 20.0})
    ratios = speed_ratios([samples("ours", "Q4_0", 400), one, other], "Q4_0")["vs_best_peer"]
    assert (ratios["prefill"], ratios["decode1"]) == (2.0, 10.0)


def test_a_ratio_without_a_peer_is_null() -> None:
    ratios = speed_ratios([samples("ours", "Q4_1", 100)], "Q4_1")
    assert set(ratios["vs_best_peer"].values()) == {None}
    assert set(ratios["vs_llamacpp_same_file"].values()) == {None}


def test_server_ratios_take_the_fastest_server_and_the_same_file() -> None:
    rows = [
        Samples("ours", "Q4_1"),
        Samples("llama-server", "Q4_1"),
        Samples("llama-server", "Q4_0"),
    ]
    for row, throughput, ttft in zip(rows, (100.0, 20.0, 40.0), (1.0, 4.0, 2.0), strict=True):
        row.add({"throughput": throughput, "ttft_p90": ttft})
    ratios = server_ratios(rows, "Q4_1")
    assert ratios["vs_best_peer"] == {"throughput": 2.5, "ttft_p90": 0.5}
    assert ratios["vs_llamacpp_same_file"] == {"throughput": 5.0, "ttft_p90": 0.25}


def test_table_shows_the_median_between_lowest_and_highest() -> None:
    lines = table([samples("ours", "Q4_1", 10)], ("decode1", "other")).splitlines()
    assert "10 (5-90)" in lines[1]
    assert lines[1].endswith("-")
