"""The whole engine on the demo model: prefill and decode in tokens per second.

    make bench NAME=engine [ARGS="--rounds 7 --threads 2 --model path"]
    make bench NAME=engine ARGS="--long --rounds 1"     # contexts of 8k and 32k tokens instead

Scheduler, page tables, model, sampler and detokenizer all work; only HTTP is left out. Two engines
take turns in every round: `eager` calls each kernel from Python, `captured` replays the recorded
step. Next to medians with their spread it prints Python's share of a step (all that is not in the
native plan or the native sampler), and the weights' bytes per second against what the machine reads
in the same run. The last line is one JSON object; numbers in lists are [median, low, high].
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.measure import ReadBandwidth, Spread
from stoker.core.config import EngineConfig, resolve
from stoker.core.request import SamplingParams
from stoker.engine.admission import engine_info, expand
from stoker.engine.core import EngineCore
from stoker.engine.machine import machine_facts
from stoker.engine.outputs import OutputProcessor
from stoker.kernels.cpu import CpuOps
from stoker.kernels.ops import Array, Draw
from stoker.memory.manager import MemoryManager
from stoker.models.model import Model
from stoker.models.registry import build_model
from stoker.runner.forward import EagerForward, best_forward
from stoker.runner.runner import ModelRunner
from stoker.sched.scheduler import Scheduler
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from stoker.weights.contract import resident_bytes

PREFILL = (512, 4096)
DECODE = (1, 4, 8, 16, 32)
DECODE_STEPS = 32
DECODE_PROMPT = 16
LONG = (8192, 32768)
LONG_STEPS = 16
"""Tokens decoded behind each long prompt."""
WARM_UP = 3
"""Steps at the start of a decode that are not counted: prefill, and memory touched first."""


class TimedOps(CpuOps):
    """Counts the seconds that are spent inside native plans and the native sampler."""

    seconds = 0.0

    def new_plan(self) -> Any:
        return _TimedPlan(super().new_plan(), self)

    def sample(self, logits: Array, draws: list[Draw]) -> list[int]:
        begin = time.perf_counter()
        tokens = super().sample(logits, draws)
        self.seconds += time.perf_counter() - begin
        return tokens


class _TimedPlan:
    def __init__(self, plan: Any, ops: TimedOps) -> None:
        self._plan = plan
        self._ops = ops

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def run(self, step: Any) -> None:
        begin = time.perf_counter()
        self._plan.run(step)
        self._ops.seconds += time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of each counted step, and what of them was Python."""

    steps: list[float]
    python: list[float]


class Engine:
    """One engine without its process."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        model: Model,
        ops: TimedOps,
        captured: bool,
        longest: int = max(PREFILL) + 16,
    ) -> None:
        config = EngineConfig(
            max_num_seqs=max(DECODE),
            max_model_len=longest,
            kv_cache_gib=1.5,
            prefix_caching=False,
            threads=ops.threads,
        )
        weights = resident_bytes(checkpoint, config.kernels)
        shape = replace(checkpoint.config, max_position_embeddings=longest)
        limits = resolve(config, shape, weights, machine_facts())
        forward = best_forward if captured else lambda m, o, kv, _: EagerForward(m, o, kv)
        runner = ModelRunner(model, ops, limits, forward)
        memory = MemoryManager(limits.kv, limits.num_pages, False, "benchmark")
        self._core = EngineCore(Scheduler(limits, memory, frozenset(), time.time), runner)
        self._info = engine_info(limits, config, weights, shape.hidden_size)
        self._tokenizer = load_tokenizer(checkpoint.tokenizer)
        self._ops = ops
        self._vocab = shape.vocab_size
        self._kv = limits.kv

    def kv_bytes(self, context: int) -> int:
        """Bytes of keys and values that a token behind so long a context reads."""
        return self._kv.pages_needed(context, 1) * self._kv.page_bytes

    def run(self, batch: int, prompt: int, max_tokens: int, seed: int) -> Run:
        """Greedy answers of `max_tokens` to `batch` random prompts."""
        rng = random.Random(seed)
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        outputs = {}
        for _ in range(batch):
            tokens = [rng.randrange(self._vocab) for _ in range(prompt)]
            for request in expand(tokens, params, self._info):
                self._core.submit(request)
                outputs[request.id] = OutputProcessor(self._tokenizer, tokens, params, 0)
        run = Run([], [])
        while self._core.has_work:
            native, begin = self._ops.seconds, time.perf_counter()
            for event in self._core.step():
                outputs[event.request_id].push(event)
            seconds = time.perf_counter() - begin
            run.steps.append(seconds)
            run.python.append(seconds - (self._ops.seconds - native))
        return run


@dataclass
class Results:
    """By (case, engine): one number a round."""

    speed: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    share: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bandwidth: list[float] = field(default_factory=list)

    def ratio(self, case: str) -> Spread:
        pairs = zip(self.speed[case, "captured"], self.speed[case, "eager"], strict=True)
        return Spread.of([after / before for after, before in pairs])


def measure(engines: dict[str, Engine], read: ReadBandwidth, rounds: int) -> Results:
    """All cases, round by round; the first round warms up and is dropped."""
    results = Results()
    for number in range(rounds + 1):
        counted = Results() if number == 0 else results
        counted.bandwidth.append(read.measure())
        for length in PREFILL:
            for name, engine in engines.items():
                run = engine.run(1, length, 1, seed=number)
                counted.speed[f"prefill{length}", name].append(length / sum(run.steps))
        for batch in DECODE:
            for name, engine in engines.items():
                run = engine.run(batch, DECODE_PROMPT, DECODE_STEPS, seed=number)
                step = statistics.median(run.steps[WARM_UP:])
                counted.speed[f"decode{batch}", name].append(batch / step)
                if name == "captured":
                    share = statistics.median(run.python[WARM_UP:]) / step
                    counted.share[f"decode{batch}"].append(share)
    return results


def measure_long(engine: Engine, model: Model, read: ReadBandwidth, rounds: int) -> None:
    """Prompts of `LONG` and decoding behind them; each prompt is long enough to be its warm-up.

    Beyond the length that a model was trained for its text has no sense, but costs the same.
    """
    bandwidth: list[float] = []
    prefill: dict[int, list[float]] = defaultdict(list)
    decode: dict[int, list[float]] = defaultdict(list)
    share: dict[int, list[float]] = defaultdict(list)
    for number in range(rounds):
        for context in LONG:
            steps = engine.run(1, context, 1 + LONG_STEPS, seed=number).steps
            bandwidth.append(read.measure())
            prefill[context].append(context / sum(steps[:-LONG_STEPS]))
            decode[context].append(1 / statistics.median(steps[-LONG_STEPS:]))
            moved = weight_bytes(model) + engine.kv_bytes(context)
            share[context].append(moved * decode[context][-1] / bandwidth[-1])
    cases: dict[str, Any] = {}
    for context in LONG:
        speeds = [Spread.of(each[context]) for each in (prefill, decode, share)]
        kv = engine.kv_bytes(context)
        print(f"{context} tokens, {kv / 1e6:.0f} MB of keys and values: prefill {speeds[0]}")
        print(f"  decode {speeds[1]} tokens/s, reading at {speeds[2]} of the memory's speed")
        names = ("prefill", "decode", "decode_read_fraction")
        rounded = (each.rounded() for each in speeds)
        cases[str(context)] = {**dict(zip(names, rounded, strict=True)), "kv_bytes": kv}
    print(json.dumps({"read_bytes_per_s": Spread.of(bandwidth).rounded(), "long": cases}))


def weight_bytes(part: Any) -> int:
    """Bytes of all packed weights below a part of a model; a shared one counts once."""
    return sum({id(weight): weight.nbytes for weight in _weights(part)}.values())


def _weights(part: Any) -> Iterator[Any]:
    if hasattr(part, "nbytes") and not isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from _weights(each)
    elif dataclasses.is_dataclass(part):
        for name in dataclasses.fields(part):
            yield from _weights(getattr(part, name.name))


def report(results: Results, model: Model, threads: int, isa: str) -> None:
    """The table, then the line of JSON."""
    read = Spread.of(results.bandwidth)
    used = [weight_bytes(model) * speed for speed in results.speed["decode1", "captured"]]
    fraction = Spread.of([u / r for u, r in zip(used, results.bandwidth, strict=True)])
    print(f"{threads} threads, {isa}; memory reads {read.median / 1e9:.1f} GB/s")
    print(f"{'tokens/s':<12}{'eager':>26}{'captured':>26}{'ratio':>24}  Python's share")
    cases: dict[str, Any] = {}
    for case in dict.fromkeys(case for case, _ in results.speed):
        before, after = (Spread.of(results.speed[case, name]) for name in ("eager", "captured"))
        ratio, share = results.ratio(case), results.share.get(case)
        percent = f"{100 * Spread.of(share).median:.1f} %" if share else ""
        print(f"{case:<12}{before!s:>26}{after!s:>26}{ratio!s:>24}  {percent}")
        cases[case] = {
            "eager": before.rounded(),
            "captured": after.rounded(),
            "ratio": ratio.rounded(),
        } | ({"python_share": Spread.of(share).rounded()} if share else {})
    print(f"decode1 reads weights at {fraction} of the memory's speed")
    summary = {
        "threads": threads,
        "isa": isa,
        "read_bytes_per_s": read.rounded(),
        "decode1_read_fraction": fraction.rounded(),
        "cases": cases,
    }
    print(json.dumps(summary))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=machine_facts().physical_cores)
    parser.add_argument("--model", default="", help="folder or GGUF file; default: the demo model")
    parser.add_argument("--long", action="store_true", help="prompts of 8k and 32k tokens instead")
    options = parser.parse_args()
    checkpoint = open_checkpoint(options.model)
    ops = TimedOps(options.threads)
    longest = max(LONG) + LONG_STEPS + 1 if options.long else None
    model = build_model(
        checkpoint.config, checkpoint, ops, lambda done, total: None, max_positions=longest
    )
    if longest is not None:
        engine = Engine(checkpoint, model, ops, True, longest)
        measure_long(engine, model, ReadBandwidth(options.threads), options.rounds)
        return
    engines = {
        "eager": Engine(checkpoint, model, ops, captured=False),
        "captured": Engine(checkpoint, model, ops, captured=True),
    }
    gc.freeze()  # what is loaded stays; looking through it again and again is nobody's step
    results = measure(engines, ReadBandwidth(options.threads), options.rounds)
    report(results, model, options.threads, ops.isa)


if __name__ == "__main__":
    main()
