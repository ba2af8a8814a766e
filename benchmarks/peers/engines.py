"""An engine on a file, in a process of its own for every turn: none disturbs another.

The runners beside this file say how each engine is started and how its figures are read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.cells import Sizes, Speeds

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1800

Cells = Sequence[str]


class RunFailed(Exception):
    """An engine ended with an error or without figures; says which and how."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One column of the table: an engine on one file."""

    name: str
    """ours, llama.cpp, ik_llama.cpp, transformers, vllm"""
    kind: str
    """Number format of the weights: that of the file, or of what the engine makes of it."""
    file: Path
    time: Callable[[Path, Cells, Sizes], Speeds]
    """Times some cells: only prompts or only batches. Raises RunFailed."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.kind}"


def run(command: Sequence[str], threads: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end in `folder`, its output captured.

    Raises:
        RunFailed: it ended with an error or took longer than `TIMEOUT_S`.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env=environment,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"{Path(command[0]).name}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        last = lines[-1] if lines else "no output"
        raise RunFailed(f"{Path(command[0]).name} ended with {done.returncode}: {last[:300]}")
    return done


def run_worker(module: str, file: Path, cells: Cells, sizes: Sizes) -> Speeds:
    """Run one of our worker modules; the last line it prints is an object of cell → tokens/s."""
    command = [sys.executable, "-m", module, str(file), ",".join(cells)]
    command += [str(sizes.threads), str(sizes.steps), str(sizes.repeats)]
    lines = run(command, sizes.threads, ROOT).stdout.strip().splitlines()
    if not lines:
        raise RunFailed(f"{module} printed nothing")
    speeds: Speeds = json.loads(lines[-1])
    return speeds
