"""How fast a model's weights are loaded: from its checkpoint, and from the cache of packed weights.

Usage: make bench NAME=load ARGS="model.gguf [--rounds 5]"

In every round, with the file dropped from the page cache and with it there: `dd` over the file,
then a load. The last line is one JSON object of bytes per second over those of `dd`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks.measure import Spread
from stoker.core.config import EngineConfig
from stoker.engine.machine import machine_facts
from stoker.kernels.cpu import CpuOps
from stoker.kernels.packed_cache import CachedTensors
from stoker.models.registry import build_model
from stoker.weights.checkpoint import open_checkpoint
from stoker.weights.locate import locate

MAX_POSITIONS = 2048


class Loads:
    """One model and its file in the cache, which is written if it is not there."""

    def __init__(self, model: str, folder: Path) -> None:
        self._model, self._folder = model, folder
        path = locate(model)
        self.checkpoint = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
        self.cache = [self.from_cache()]

    def from_checkpoint(self) -> None:
        checkpoint = open_checkpoint(self._model)
        ops = CpuOps(machine_facts().physical_cores)
        build_model(checkpoint.config, checkpoint, ops, _silent, max_positions=MAX_POSITIONS)

    def from_cache(self) -> Path:
        checkpoint = open_checkpoint(self._model)
        ops = CpuOps(machine_facts().physical_cores)
        with CachedTensors(self._folder, checkpoint, ops) as tensors:
            build_model(
                checkpoint.config,
                checkpoint,
                ops,
                _silent,
                tensors=tensors,
                max_positions=MAX_POSITIONS,
            )
        if tensors.writer is not None:
            tensors.writer.join()
        return tensors.path


def _silent(done: int, total: int) -> None:
    pass


def speed(work: Callable[[], object], paths: list[Path], cold: bool) -> float:
    """Bytes of the files per second."""
    for path in paths if cold else ():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    started = time.perf_counter()
    work()
    return sum(path.stat().st_size for path in paths) / (time.perf_counter() - started)


def dd(paths: Iterable[Path]) -> None:
    for path in paths:
        command = ["dd", f"if={path}", "of=/dev/null", "bs=1M"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=Path(EngineConfig().packed_cache))
    args = parser.parse_args()
    loads = Loads(args.model, args.cache.expanduser())
    cases = {
        "checkpoint": (loads.from_checkpoint, loads.checkpoint),
        "cache": (loads.from_cache, loads.cache),
    }
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(args.rounds):
        for state in ("cold", "warm"):
            for name, (load, paths) in cases.items():
                by_dd = speed(partial(dd, paths), paths, state == "cold")
                found[name, state].append((speed(load, paths, state == "cold"), by_dd))
    ratios = {}
    for (name, state), pairs in found.items():
        mine, read = (Spread.of(values) for values in zip(*pairs, strict=True))
        ratio = Spread.of([load / dd for load, dd in pairs])
        ratios[f"{name}_{state}"] = ratio.rounded()
        size = sum(path.stat().st_size for path in cases[name][1])
        print(
            f"{name:10} {state}  {size / 1e6:6.0f} MB  {size / mine.median:5.2f} s"
            f"  {mine.median / 1e9:5.2f} GB/s   dd {read.median / 1e9:5.2f} GB/s   ratio {ratio}"
        )
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
