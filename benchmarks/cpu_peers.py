"""Stoker against other engines on this CPU: `make bench NAME=cpu_peers ARGS="--rounds 5"`.

The same GGUF file, the same threads, turn by turn, so that a slow minute of the machine falls on
all of them. Prints a table of medians (lowest-highest round) in tokens per second, and as its last
line one JSON object with the ratios of ours to the peers'. The first run builds the peers
(`peers/find_or_build.py`) and makes the models' files, which takes long.

What is compared: ours is the whole engine (scheduler, pages, sampler, text); llama-bench and
llama-batched-bench time the bare model. KV caches: ours bf16, theirs f16. Every engine runs in a
process of its own, warmed up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.agent_load import Load
from benchmarks.measure import ReadBandwidth
from benchmarks.peers import hf, llama_cpp, machine, ours, vllm_cpu
from benchmarks.peers.cells import CELLS, GROUPS, Sizes
from benchmarks.peers.engines import Engine, RunFailed
from benchmarks.peers.find_or_build import (
    IK_LLAMA,
    LLAMA_CPP,
    PeerMissing,
    Source,
    find,
    find_or_build,
    version,
)
from benchmarks.peers.models import MODEL_NAMES, BenchModel, open_model
from benchmarks.peers.report import SERVER_CELLS, Samples, server_ratios, speed_ratios, table
from benchmarks.peers.servers import Server, llama_server, run_server, stoker_server

SERVER_MODEL = "smollm2"
QUICK_TOKENS = 8
QUICK_LOAD = Load(turns=2, max_tokens=8, deadline_s=120)


def main() -> None:
    args = _arguments()
    programs = {
        source.name: _programs(source, args.jobs, args.no_build) for source in (LLAMA_CPP, IK_LLAMA)
    }
    report: dict[str, Any] = {
        "bench": "cpu_peers",
        "rounds": args.rounds,
        "threads": args.threads,
        "machine": machine.facts(),
        "peers": {s.name: version(s) for s in (LLAMA_CPP, IK_LLAMA) if programs[s.name]},
        "models": {},
    }
    quantize = programs[LLAMA_CPP.name]
    for name in args.models:
        try:
            model = open_model(name, quantize and quantize / "llama-quantize")
        except PeerMissing as missing:
            _say(f"Left out: {missing}")
            continue
        report["models"][name] = _bench_model(model, programs, args)
    first: dict[str, Any] = next(iter(report["models"].values()), {})
    report |= {key: first.get(key) for key in ("vs_best_peer", "vs_llamacpp_same_file")}
    report["server"] = (first.get("vs_best_peer") or {}).get("server")
    print(json.dumps(report))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stoker against other engines on this CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=MODEL_NAMES, default=list(MODEL_NAMES))
    parser.add_argument(
        "--quick", action="store_true", help="one short round on the first model: does it run?"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="to build peers with")
    parser.add_argument("--no-build", action="store_true", help="leave out peers not built yet")
    parser.add_argument("--no-server", action="store_true", help="leave out the servers")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.models = 1, args.models[:1]
    return args


def _programs(source: Source, jobs: int, no_build: bool) -> Path | None:
    try:
        return find(source) if no_build else find_or_build(source, jobs)
    except PeerMissing as missing:
        _say(f"Left out: {missing}")
        return None


def _bench_model(
    model: BenchModel, programs: dict[str, Path | None], args: argparse.Namespace
) -> dict[str, Any]:
    """All engines on one model; returns medians and ratios for the report."""
    sizes = Sizes(args.threads, QUICK_TOKENS if args.quick else model.new_tokens)
    engines = _engines(model, programs)
    bandwidth = []
    samples = {engine.label: Samples(engine.name, engine.kind) for engine in engines}
    for round_ in range(args.rounds):
        bandwidth.append(ReadBandwidth(args.threads).measure())
        for group in GROUPS:
            for engine in _rotated(engines, round_):
                _say(f"{model.name}, round {round_ + 1}/{args.rounds}, {group}: {engine.label}")
                try:
                    samples[engine.label].add(engine.time(engine.file, group, sizes))
                except RunFailed as failed:
                    _say(f"  failed: {failed}")
    rows = list(samples.values())
    print(f"\n{model.name}, tokens/s, {args.rounds} rounds, {args.threads} threads")
    print(table(rows, CELLS), flush=True)
    result: dict[str, Any] = {**speed_ratios(rows, model.base)}
    result["medians"] = {row.label: {c: row.median(c) for c in CELLS} for row in rows}
    result["read_gb_s"] = round(median(bandwidth) / 1e9, 2)
    decode1 = next((row.median("decode1") for row in rows if row.name == "ours"), None)
    if decode1:
        moved = decode1 * machine.bytes_per_token(model.file)
        result["read_fraction_decode1"] = round(moved / median(bandwidth), 3)
    if model.name == SERVER_MODEL and not args.no_server:
        _bench_servers(model, programs[LLAMA_CPP.name], args, result)
    return result


def _bench_servers(
    model: BenchModel, programs: Path | None, args: argparse.Namespace, result: dict[str, Any]
) -> None:
    """Add `server` to both comparisons of `result`, and the medians."""
    load = QUICK_LOAD if args.quick else Load()
    servers: list[Server] = [stoker_server(model.base, model.file, args.threads)]
    if programs is not None:
        servers += [
            llama_server(kind, file, args.threads, load.sessions, programs)
            for kind, file in model.files.items()
        ]
    samples = {server.label: Samples(server.name, server.kind) for server in servers}
    for round_ in range(args.rounds):
        for server in _rotated(servers, round_):
            _say(f"{model.name}, round {round_ + 1}/{args.rounds}, server: {server.label}")
            try:
                run = run_server(server, load)
            except RunFailed as failed:
                _say(f"  failed: {failed}")
                continue
            p50, p90 = run.ttft(0.5), run.ttft(0.9)
            _say(f"  {json.dumps(run.summary())}")
            samples[server.label].add(
                {"throughput": run.throughput, "ttft_p50": p50, "ttft_p90": p90}
            )
    rows = list(samples.values())
    print(f"\n{model.name}, {load.sessions} agents over HTTP: output tokens/s, seconds")
    print(table(rows, SERVER_CELLS, digits=2), flush=True)
    for comparison, ratios in server_ratios(rows, model.base).items():
        result[comparison]["server"] = ratios
    result["servers"] = {row.label: {c: row.median(c) for c in SERVER_CELLS} for row in rows}


def _engines(model: BenchModel, programs: dict[str, Path | None]) -> list[Engine]:
    engines = [ours.engine(model.base, model.file)]
    if (folder := programs[LLAMA_CPP.name]) is not None:
        engines += [llama_cpp.llama_cpp(kind, file, folder) for kind, file in model.files.items()]
    if (folder := programs[IK_LLAMA.name]) is not None:
        engines += [llama_cpp.ik_llama(kind, file, folder) for kind, file in model.files.items()]
    if model.name == SERVER_MODEL:  # in float32 they are far behind; on one model that is shown
        engines += filter(None, (hf.transformers(model.file), vllm_cpu.vllm(model.file)))
    return engines


def _rotated(items: Sequence[Any], by: int) -> list[Any]:
    """Every round starts with another one: being first must not be anybody's advantage."""
    by %= len(items)
    return [*items[by:], *items[:by]]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
