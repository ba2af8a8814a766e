"""Ratios of a benchmark: which figures are compared, and what a missing one does."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from benchmarks.peers.cells import CELLS
from benchmarks.peers.report import ModelRun, Samples, comparisons, merged, table, tables


def samples(name: str, kind: str, speed: float) -> Samples:
    row = Samples(name, kind)
    for round_ in (0.5, 1.0, 9.0):  # the median is what counts, not the mean
        row.add(CELLS, dict.fromkeys(CELLS, speed * round_))
    return row


def test_best_peer_is_the_fastest_in_any_format() -> None:
    rows = [
        samples("ours", "Q4_1", 300),
        samples("ours", "Q4_0", 450),
        samples("llama.cpp", "Q4_1", 50),
        samples("llama.cpp", "Q4_0", 100),
        samples("ik_llama.cpp", "Q4_0", 150),
    ]
    ratios = comparisons(rows, "Q4_1")
    assert ratios["vs_best_peer"] == dict.fromkeys(CELLS, 2.0)
    assert ratios["vs_llamacpp_same_file"] == dict.fromkeys(CELLS, 6.0)
    assert ratios["vs_best_peer_by_format"] == {
        "Q4_1": dict.fromkeys(CELLS, 2.0),
        "Q4_0": dict.fromkeys(CELLS, 3.0),
    }


def test_engines_in_other_formats_than_four_bits_are_no_bar() -> None:
    rows = [
        samples("ours", "Q4_1", 100),
        samples("llama.cpp", "Q4_1", 50),
        samples("transformers", "f32", 1000),
    ]
    assert comparisons(rows, "Q4_1")["vs_best_peer"]["decode1"] == 2.0


def test_each_cell_has_its_own_best_peer() -> None:
    one, other = Samples("llama.cpp", "Q4_0"), Samples("ik_llama.cpp", "Q4_0")
    one.add(("prefill", "decode1"), {"prefill": 100.0, "decode1": 40.0})
    other.add(("prefill", "decode1"), {"prefill": 200.0, "decode1": 20.0})
    ratios = comparisons([samples("ours", "Q4_0", 400), one, other], "Q4_0")["vs_best_peer"]
    assert (ratios["prefill"], ratios["decode1"]) == (2.0, 10.0)


def test_a_ratio_without_a_peer_or_without_ours_is_null() -> None:
    for rows in ([samples("ours", "Q4_1", 100)], [samples("llama.cpp", "Q4_1", 100)], []):
        ratios = comparisons(rows, "Q4_1")
        assert set(ratios["vs_best_peer"].values()) == {None}
        assert set(ratios["vs_llamacpp_same_file"].values()) == {None}


def test_server_ratios_take_the_fastest_server_and_the_same_file() -> None:
    rows = [
        Samples("ours", "Q4_1"),
        Samples("llama-server", "Q4_1"),
        Samples("llama-server", "Q4_0"),
    ]
    for row, throughput, ttft in zip(rows, (100.0, 20.0, 40.0), (1.0, 4.0, 2.0), strict=True):
        row.add(("throughput", "ttft_p90"), {"throughput": throughput, "ttft_p90": ttft})
    ratios = comparisons(rows, "Q4_1")
    assert ratios["vs_best_peer"]["server"] == {"throughput": 2.5, "ttft_p90": 0.5}
    assert ratios["vs_llamacpp_same_file"]["server"] == {"throughput": 5.0, "ttft_p90": 0.25}


def test_table_shows_the_median_between_lowest_and_highest() -> None:
    lines = table([samples("ours", "Q4_1", 10)], ("decode1", "other")).splitlines()
    assert "10 (5-90)" in lines[1]
    assert lines[1].endswith("-")


def test_a_failed_round_is_shown_and_left_out_of_the_median() -> None:
    row = Samples("llama.cpp", "Q4_0")
    for figures in ({"decode1": 10.0}, {}, {"decode1": 30.0}):
        row.add(("decode1", "decode4"), figures)
    assert row.median("decode1") == 20.0
    lines = table([row], ("decode1", "decode4")).splitlines()
    assert "20 (10-30) 1 failed" in lines[1]
    assert lines[1].endswith("failed")
    assert row.median("decode4") is None


def model_run(speed: float, failures: list[str]) -> ModelRun:
    row = Samples("ours", "Q4_1")
    row.add(("decode1",), {"decode1": speed})
    return ModelRun("Q4_1", 50_000_000, [row], [20.0], failures)


def test_reports_are_put_together_round_by_round() -> None:
    server = Samples("ours", "Q4_1", {"throughput": [5.0]})
    reports = [
        {"a": model_run(100.0, ["late"]), "b": model_run(7.0, [])},
        {"a": model_run(300.0, [])},
        {"a": ModelRun("Q4_1", 50_000_000, [server])},
    ]
    through_json = [
        {name: ModelRun.of(json.loads(json.dumps(asdict(run)))) for name, run in report.items()}
        for report in reports
    ]
    whole = merged(through_json)["a"]
    assert whole.rows == [Samples("ours", "Q4_1", {"decode1": [100.0, 300.0], "throughput": [5.0]})]
    summary = whole.summary()
    assert summary["failures"] == ["late"]
    assert summary["read_fraction_decode1"] == 0.5  # the median of 0.25 and 0.75
    assert "200 (100-300)" in tables("a", whole) and "5.00 (5.00-5.00)" in tables("a", whole)


def test_runs_of_different_files_are_not_put_together() -> None:
    with pytest.raises(ValueError, match="different files"):
        merged([{"a": model_run(1.0, [])}, {"a": ModelRun("Q4_0", 50_000_000)}])
