"""Reading what llama.cpp's programs print."""

from __future__ import annotations

import pytest

from benchmarks.peers.engines import RunFailed
from benchmarks.peers.llama_cpp import parse_batched_bench

TABLE = """
main: n_kv_max = 8192, n_batch = 2048, n_ubatch = 512, flash_attn = -1, n_threads = 2

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|    16 |     32 |    1 |     48 |    0.108 |   148.14 |    0.417 |    76.57 |    0.525 |    91.42 |
|    16 |     32 |    4 |    192 |    0.366 |   174.86 |    0.653 |   195.98 |    1.019 |   188.42 |
"""


def test_decode_speed_is_read_for_each_batch() -> None:
    assert parse_batched_bench(TABLE) == {1: 76.57, 4: 195.98}


def test_no_table_is_an_error() -> None:
    with pytest.raises(RunFailed):
        parse_batched_bench("error: unable to load model")
