"""What quantised activations cost in quality, ours and llama.cpp's: `make bench NAME=quality`.

Both engines compute the demo model's file twice: by their default path, which rounds activations to
int8 in groups of 32, and in float32 from the same dequantised weights, with a float32 KV cache. The
figure is the KL divergence of the first from the second, in nats a token, each engine against
itself, so nothing but the path differs.

The text is cut as `llama-perplexity` cuts it: chunks of 512 tokens, each on its own, of which the
second half is scored, but for the last token, which predicts nothing of the chunk. llama.cpp keeps
the float path's log-probabilities in 16 bits: steps of at most 0.00025, which average out.

The last line is one JSON object; `ratio` is our mean over theirs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.find_or_build import LLAMA_CPP, PeerMissing, find_or_build
from stoker.core.config import EngineConfig, KernelName
from stoker.core.model import PAGE_SIZE, KVDtype, kv_layout
from stoker.core.plan import SeqStep, StepPlan
from stoker.kernels.dispatch import get_ops
from stoker.models.registry import build_model
from stoker.runner.batch import build_inputs
from stoker.runner.kv_cache import KVCache
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import Checkpoint, open_checkpoint

PROSE = Path(__file__).parents[1] / "tests" / "data" / "prose.txt"
CHUNK = 512
SCORED = slice(CHUNK // 2, CHUNK - 1)
PERCENTILES = {"p50": "Median", "p90": "90.0%", "p95": "95.0%", "p99": "99.0%", "p99.9": "99.9%"}
"""Our name of each → llama-perplexity's."""
Logits = NDArray[np.float32]


def our_kl(checkpoint: Checkpoint, text: str, threads: int) -> dict[str, float]:
    """KL of each scored position, as mean, max and percentiles."""
    tokens = load_tokenizer(checkpoint.tokenizer).encode(text, add_special_tokens=False)
    chunks = [tokens[i : i + CHUNK] for i in range(0, len(tokens) - CHUNK + 1, CHUNK)]
    default = EngineConfig()
    values = np.concatenate(
        [
            kl(truth, rows)
            for truth, rows in zip(
                _logits(checkpoint, chunks, "reference", "f32", threads),
                _logits(checkpoint, chunks, default.kernels, default.kv_dtype, threads),
                strict=True,
            )
        ]
    )
    percentiles = {name: np.percentile(values, float(name[1:])) for name in PERCENTILES}
    figures = {"mean": values.mean(), "max": values.max(), **percentiles}
    return {name: float(f"{value:.4g}") for name, value in figures.items()} | {
        "positions": values.size
    }


def kl(truth: Logits, rows: Logits) -> NDArray[np.float64]:
    """For each row sum(p * (log p - log q)), in nats, of two rows of logits."""
    log_p, log_q = _log_softmax(truth), _log_softmax(rows)
    result: NDArray[np.float64] = (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return result


def _log_softmax(logits: Logits) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def _logits(
    checkpoint: Checkpoint,
    chunks: Sequence[list[int]],
    kernels: KernelName,
    kv_dtype: KVDtype,
    threads: int,
) -> Iterator[Logits]:
    """The scored rows of each chunk, computed in one step by our model."""
    ops = get_ops(kernels, threads)
    config = checkpoint.config
    model = build_model(config, checkpoint, ops, lambda done, total: None, max_positions=CHUNK)
    layout = kv_layout(config, kv_dtype)
    num_pages = CHUNK // PAGE_SIZE
    cache = KVCache(ops, layout, num_pages)
    pages = tuple(list(range(num_pages)) for _ in layout.groups)
    for chunk in chunks:
        plan = StepPlan(0, (SeqStep("text", chunk, 0, pages, None),))
        logits: Logits = ops.numpy(model.logits(model.forward(build_inputs(plan, cache))))
        yield logits[SCORED]


def their_kl(programs: Path, file: Path, text: Path, threads: int) -> dict[str, float]:
    """The same figures of llama.cpp."""
    with tempfile.TemporaryDirectory() as folder:
        floats, base = f"{folder}/f32.gguf", f"{folder}/base"
        _run(str(programs / "llama-quantize"), "--allow-requantize", str(file), floats, "F32")
        score = [str(programs / "llama-perplexity"), "-f", str(text), "-c", str(CHUNK)]
        score += ["-t", str(threads), "--kl-divergence-base", base]
        _run(*score, "-m", floats, "-fa", "off", "-ctk", "f32", "-ctv", "f32")
        return parse_kl(_run(*score, "-m", str(file), "--kl-divergence"))


def parse_kl(text: str) -> dict[str, float]:
    """Figures of the table that llama-perplexity prints, like `Mean    KLD:   0.002469 ± …`."""
    found = dict(re.findall(r"^\s*(\S+)\s+KLD:\s+(-?[\d.]+)", text, re.MULTILINE))
    names = {"mean": "Mean", "max": "Maximum", **PERCENTILES}
    return {ours: float(found[theirs]) for ours, theirs in names.items()}


def _run(*command: str) -> str:
    """What a program prints to either stream; its errors as an exception that shows them."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="to build llama.cpp with")
    args = parser.parse_args()
    checkpoint = open_checkpoint("")
    report: dict[str, object] = {"bench": "quality"}
    report["ours"] = ours = our_kl(checkpoint, PROSE.read_text(encoding="utf-8"), args.threads)
    print(f"ours:      {ours}", flush=True)
    try:
        programs = find_or_build(LLAMA_CPP, args.jobs)
    except PeerMissing as missing:
        print(f"Left out: {missing}")
    else:
        report["llama.cpp"] = theirs = their_kl(programs, checkpoint.path, PROSE, args.threads)
        print(f"llama.cpp: {theirs}")
        report["ratio"] = round(ours["mean"] / theirs["mean"], 3)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
