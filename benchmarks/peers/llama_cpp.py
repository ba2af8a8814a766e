"""llama.cpp and its fork ik_llama.cpp: llama-bench for prompts, llama-batched-bench for decoding.

Both time the bare model: no sampling, no text. KV cache in f16, their default, as are batch sizes,
memory maps and whatever else is not named here; docs/performance.md says what was tried.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from benchmarks.peers.cells import BATCHES, PROMPTS, SHORT_PROMPT, Sizes, Speeds
from benchmarks.peers.engines import Cells, Engine, RunFailed, run

PAGE = 256
"""llama.cpp rounds the context of a sequence up to this."""


def llama_cpp(kind: str, file: Path, programs: Path) -> Engine:
    """llama.cpp as it comes: it repacks Q4_0 for this CPU and uses flash attention by itself."""

    def time(file: Path, cells: Cells, sizes: Sizes) -> Speeds:
        speeds = _prefill(programs, file, cells, sizes, [], ["--no-warmup"])
        return speeds | _decode(programs, file, cells, sizes, [])

    return Engine("llama.cpp", kind, file, time)


def ik_llama(kind: str, file: Path, programs: Path) -> Engine:
    """ik_llama.cpp, repacking at load (-rtr), which is what makes it fast.

    Its flash attention, on for prompts, fails on a batch of several sequences; decoding one with
    a short context is faster without it.
    """

    def time(file: Path, cells: Cells, sizes: Sizes) -> Speeds:
        speeds = _prefill(programs, file, cells, sizes, ["-rtr", "1"], ["-w", "0"])
        return speeds | _decode(programs, file, cells, sizes, ["-rtr", "-no-fa"])

    return Engine("ik_llama.cpp", kind, file, time)


def _prefill(
    programs: Path, file: Path, cells: Cells, sizes: Sizes, flags: list[str], no_warm_up: list[str]
) -> Speeds:
    """The long prompt needs no warm-up, which would double its time."""
    speeds = {}
    for cell in (cell for cell in cells if cell in PROMPTS):
        is_long = PROMPTS[cell] > min(PROMPTS.values())
        repeats = ["-r", "1", *no_warm_up] if is_long else ["-r", str(sizes.repeats)]
        command = [str(programs / "llama-bench"), "-m", str(file), "-t", str(sizes.threads)]
        command += ["-p", str(PROMPTS[cell]), "-n", "0", "-o", "json", *flags, *repeats]
        tests = _json_list(run(command, sizes.threads, programs).stdout)
        speeds[cell] = float(tests[0]["avg_ts"])
    return speeds


def _json_list(text: str) -> list[dict[str, float]]:
    start = text.find("[\n")
    if start < 0:
        raise RunFailed("llama-bench printed no list of tests")
    tests: list[dict[str, float]] = json.JSONDecoder().raw_decode(text, start)[0]
    return tests


def _decode(programs: Path, file: Path, cells: Cells, sizes: Sizes, flags: list[str]) -> Speeds:
    """One process for the batches that decode equally many tokens."""
    speeds: Speeds = {}
    batches = (cell for cell in cells if cell in BATCHES)
    for new_tokens, group in groupby(batches, sizes.new_tokens):
        same = {cell: BATCHES[cell] for cell in group}
        context = -(-(SHORT_PROMPT + new_tokens) // PAGE) * PAGE * max(same.values())
        command = [str(programs / "llama-batched-bench"), "-m", str(file), "-c", str(context)]
        command += ["-t", str(sizes.threads), "-npp", str(SHORT_PROMPT), *flags]
        command += ["-ntg", str(new_tokens), "-npl", ",".join(map(str, same.values()))]
        done = run(command, sizes.threads, programs)  # ik_llama.cpp leaves a log where it runs
        # llama.cpp and ik_llama.cpp print the same table to different streams.
        by_batch = parse_batched_bench(done.stdout + done.stderr)
        speeds |= {cell: by_batch[batch] for cell, batch in same.items() if batch in by_batch}
    return speeds


def parse_batched_bench(text: str) -> dict[int, float]:
    """Sequences → decoded tokens per second, from the table that both programs print.

    Columns: PP, TG, B, N_KV, T_PP, S_PP, T_TG, S_TG, T, S.
    """
    rows = [
        [column.strip() for column in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and line.count("|") == 11
    ]
    speeds = {int(row[2]): float(row[7]) for row in rows if row[0].isdigit()}
    if not speeds:
        raise RunFailed("llama-batched-bench printed no table")
    return speeds
