"""llama.cpp and its fork ik_llama.cpp: llama-bench for prompts, llama-batched-bench for decoding.

Both time the bare model: no sampling, no text. KV cache in f16, their default.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peers.cells import BATCHES, PROMPTS, SHORT_PROMPT, Sizes, Speeds
from benchmarks.peers.engines import Engine, RunFailed, run

PAGE = 256
"""llama.cpp rounds the context of a sequence up to this."""


def llama_cpp(kind: str, file: Path, programs: Path) -> Engine:
    """llama.cpp as it comes: it repacks Q4_0 for this CPU by itself."""

    def time(file: Path, group: str, sizes: Sizes) -> Speeds:
        if group == "prefill":
            return _prefill(programs, file, sizes, [], ["--no-warmup"])
        return _decode(programs, file, sizes, [])

    return Engine("llama.cpp", kind, file, time)


def ik_llama(kind: str, file: Path, programs: Path) -> Engine:
    """ik_llama.cpp, with its repacking at load (-rtr), which is what makes it fast."""

    def time(file: Path, group: str, sizes: Sizes) -> Speeds:
        if group == "prefill":
            return _prefill(programs, file, sizes, ["-rtr", "1"], ["-w", "0"])
        # Its flash attention fails on a batch of several sequences.
        return _decode(programs, file, sizes, ["-rtr", "-no-fa"])

    return Engine("ik_llama.cpp", kind, file, time)


def _prefill(
    programs: Path, file: Path, sizes: Sizes, flags: list[str], no_warm_up: list[str]
) -> Speeds:
    """One repetition a prompt; the long one needs no warm-up, which would double its time."""
    speeds = {}
    shortest = min(PROMPTS.values())
    for cell, length in PROMPTS.items():
        command = [str(programs / "llama-bench"), "-m", str(file), "-t", str(sizes.threads)]
        command += ["-p", str(length), "-n", "0", "-r", "1", "-o", "json", *flags]
        done = run(command + (no_warm_up if length > shortest else []), sizes.threads, programs)
        tests = _json_list(done.stdout)
        speeds[cell] = float(tests[0]["avg_ts"])
    return speeds


def _json_list(text: str) -> list[dict[str, float]]:
    start = text.find("[\n")
    if start < 0:
        raise RunFailed("llama-bench printed no list of tests")
    tests: list[dict[str, float]] = json.JSONDecoder().raw_decode(text, start)[0]
    return tests


def _decode(programs: Path, file: Path, sizes: Sizes, flags: list[str]) -> Speeds:
    context = -(-(SHORT_PROMPT + sizes.new_tokens) // PAGE) * PAGE * max(BATCHES.values())
    batches = ",".join(str(batch) for batch in BATCHES.values())
    command = [str(programs / "llama-batched-bench"), "-m", str(file), "-c", str(context)]
    command += ["-t", str(sizes.threads), "-npp", str(SHORT_PROMPT), *flags]
    command += ["-ntg", str(sizes.new_tokens), "-npl", batches]
    done = run(command, sizes.threads, programs)  # ik_llama.cpp leaves a log where it runs
    # llama.cpp and ik_llama.cpp print the same table to different streams.
    by_batch = parse_batched_bench(done.stdout + done.stderr)
    return {cell: by_batch[batch] for cell, batch in BATCHES.items() if batch in by_batch}


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
