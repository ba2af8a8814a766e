"""Stoker against other engines on this CPU: `make bench NAME=cpu_peers ARGS="--rounds 5"`.

The same GGUF file, the same threads, turn by turn, so that a slow minute of the machine falls on
all of them. Prints a table of medians (lowest-highest round) in tokens per second, and as its last
line one JSON object with the ratios of ours to the peers'. The first run builds the peers
(`peers/find_or_build.py`) and makes the models' files, which takes long.

What is compared: ours is the whole engine (scheduler, pages, sampler, text); llama-bench and
llama-batched-bench time the bare model. KV caches: ours bf16, theirs f16. Every engine runs in a
process of its own, warmed up.

Parts can be run one by one, and what they printed put together:

    python -m benchmarks.cpu_peers --models smollm2 --parts prefill decode | tee a
    python -m benchmarks.cpu_peers --models smollm2 --parts server | tee b
    python -m benchmarks.cpu_peers --merge a b
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.agent_load import Load
from benchmarks.measure import ReadBandwidth
from benchmarks.peers import hf, llama_cpp, machine, ours, vllm_cpu
from benchmarks.peers.cells import BATCHES, PROMPTS, SERVER_CELLS, Sizes
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
from benchmarks.peers.report import OURS, Figures, ModelRun, merged, tables
from benchmarks.peers.servers import Server, llama_server, run_server, stoker_server

SPEED_PARTS = {"prefill": tuple(PROMPTS), "decode": tuple(BATCHES)}
"""Part → cells; engines take turns within a part."""
PARTS = (*SPEED_PARTS, "server")
SERVER_MODEL = "smollm2"
FLOAT_MODEL = "smollm2"
"""transformers and vLLM compute in float32 and are far behind; one model shows that."""
QUICK_STEPS = 8
QUICK_LOAD = Load(turns=2, max_tokens=8, deadline_s=120)

Programs = dict[str, Path | None]
"""Peer → folder of its programs."""
T = TypeVar("T", Engine, Server)


class Bench:
    """All rounds on one model; every round starts with another engine."""

    def __init__(self, model: BenchModel, programs: Programs, args: argparse.Namespace) -> None:
        self.run = ModelRun(model.base, machine.bytes_per_token(model.file))
        self._model = model
        self._args = args
        steps = QUICK_STEPS if args.quick else model.steps
        self._sizes = Sizes(args.threads, steps, 1 if args.quick else model.repeats)
        self._load = QUICK_LOAD if args.quick else Load()
        self._engines = [e for e in _engines(model, programs) if e.name in args.engines]
        self._servers = _servers(model, programs, args.threads, self._load.sessions)
        self._memory = ReadBandwidth(args.threads)

    def round(self, number: int) -> None:
        for part, cells in SPEED_PARTS.items():
            wanted = tuple(cell for cell in self._model.cells if cell in cells)
            for engine in _rotated(self._engines, number) if part in self._args.parts else ():
                self._speed(number, part, engine, wanted)
        if "server" in self._args.parts:
            for server in _rotated(self._servers, number):
                self._turn(number, "server", server, SERVER_CELLS, self._serve)

    def _speed(self, number: int, part: str, engine: Engine, cells: Sequence[str]) -> None:
        """A turn of an engine; beside ours decoding the base file, the memory's speed."""
        beside = part == "decode" and (engine.name, engine.kind) == (OURS, self._model.base)
        before = self._memory.measure() if beside else 0.0
        self._turn(number, part, engine, cells, lambda e: e.time(e.file, cells, self._sizes))
        if beside:
            self.run.read_gb_s.append(round(max(before, self._memory.measure()) / 1e9, 3))

    def _serve(self, server: Server) -> Figures:
        run = run_server(server, self._load)
        return dict(zip(SERVER_CELLS, (run.throughput, run.ttft(0.5), run.ttft(0.9)), strict=True))

    def _turn(
        self, number: int, part: str, one: T, cells: Sequence[str], measure: Callable[[T], Figures]
    ) -> None:
        what = f"{self._model.name}, round {number + 1}/{self._args.rounds}, {part}: {one.label}"
        figures: Figures = {}
        start = time.perf_counter()
        try:
            figures = measure(one)
        except RunFailed as failed:
            self.run.failures.append(f"{what}: {failed}")
            _say(f"FAILED: {failed}")
        self.run.row(one.name, one.kind).add(cells, figures)
        seconds = time.perf_counter() - start
        _say(f"{what}: {seconds:.0f} s, { {c: round(value, 2) for c, value in figures.items()} }")


def main() -> None:
    args = _arguments()
    if args.merge:
        reports = [json.loads(Path(file).read_text().splitlines()[-1]) for file in args.merge]
        runs = [
            {name: ModelRun.of(run) for name, run in report["samples"].items()}
            for report in reports
        ]
        _print(reports[0], merged(runs))
        return
    programs = {
        source.name: _programs(source, args.jobs, args.no_build) for source in (LLAMA_CPP, IK_LLAMA)
    }
    head = {
        "bench": "cpu_peers",
        "threads": args.threads,
        "machine": machine.facts(),
        "peers": {s.name: version(s) for s in (LLAMA_CPP, IK_LLAMA) if programs[s.name]},
    }
    _print(head, _measure(programs, args))


def _measure(programs: Programs, args: argparse.Namespace) -> dict[str, ModelRun]:
    quantize = programs[LLAMA_CPP.name]
    runs = {}
    for name in args.models:
        try:
            model = open_model(name, quantize and quantize / "llama-quantize")
        except PeerMissing as missing:
            _say(f"Left out: {missing}")
            continue
        bench = Bench(model, programs, args)
        for number in range(args.rounds):
            bench.round(number)
        runs[name] = bench.run
    return runs


def _print(head: dict[str, Any], runs: dict[str, ModelRun]) -> None:
    """All tables, then the report: the first model's ratios again on top of all."""
    models = {name: run.summary() for name, run in runs.items()}
    for name, run in runs.items():
        print(tables(name, run))
    first: dict[str, Any] = next(iter(models.values()), {})
    keys = ("vs_best_peer", "vs_llamacpp_same_file", "vs_best_peer_by_format")
    report = {key: head[key] for key in ("bench", "threads", "machine", "peers")}
    report |= {key: first.get(key) for key in keys}
    report["server"] = (first.get("vs_best_peer") or {}).get("server")
    report["models"] = models
    report["samples"] = {name: asdict(run) for name, run in runs.items()}
    print(json.dumps(report))


def _arguments() -> argparse.Namespace:
    engines = (OURS, LLAMA_CPP.name, IK_LLAMA.name, "transformers", "vllm")
    parser = argparse.ArgumentParser(description="Stoker against other engines on this CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=MODEL_NAMES, default=list(MODEL_NAMES))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--engines", nargs="+", choices=engines, default=list(engines))
    parser.add_argument(
        "--quick", action="store_true", help="one short round of what is chosen: does it all run?"
    )
    parser.add_argument("--merge", nargs="+", help="files with the output of earlier runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="to build peers with")
    parser.add_argument("--no-build", action="store_true", help="leave out peers not built yet")
    args = parser.parse_args()
    if args.quick:
        args.rounds = 1
    return args


def _programs(source: Source, jobs: int, no_build: bool) -> Path | None:
    try:
        return find(source) if no_build else find_or_build(source, jobs)
    except PeerMissing as missing:
        _say(f"Left out: {missing}")
        return None


def _engines(model: BenchModel, programs: Programs) -> list[Engine]:
    engines = [ours.engine(kind, file) for kind, file in model.formats(model.ours).items()]
    for source, make, kinds in (
        (LLAMA_CPP, llama_cpp.llama_cpp, model.llama_cpp),
        (IK_LLAMA, llama_cpp.ik_llama, model.ik_llama),
    ):
        if (folder := programs[source.name]) is not None:
            engines += [make(kind, file, folder) for kind, file in model.formats(kinds).items()]
    if model.name == FLOAT_MODEL:
        engines += filter(None, (hf.transformers(model.file), vllm_cpu.vllm(model.file)))
    return engines


def _servers(model: BenchModel, programs: Programs, threads: int, sessions: int) -> list[Server]:
    if model.name != SERVER_MODEL:
        return []
    servers = [stoker_server(model.base, model.file, threads)]
    if (folder := programs[LLAMA_CPP.name]) is not None:
        servers += [
            llama_server(kind, file, threads, sessions, folder)
            for kind, file in model.formats(model.llama_cpp).items()
        ]
    return servers


def _rotated(items: Sequence[T], by: int) -> list[T]:
    """Every round starts with another one: being first must not be anybody's advantage."""
    by %= max(len(items), 1)
    return list(items[by:]) + list(items[:by])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
