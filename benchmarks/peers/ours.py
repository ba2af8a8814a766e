"""Stoker, the whole engine: scheduler, pages, sampler and text through the public `LLM`."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.peers.cells import BATCHES, Sizes, Speeds
from benchmarks.peers.engines import Cells, Engine, run_worker
from benchmarks.peers.worker import Prompt, main
from stoker import LLM, SamplingParams
from stoker.core.config import EngineConfig

KV_CACHE_GIB = 2.0


def engine(kind: str, file: Path) -> Engine:
    return Engine("ours", kind, file, _time)


def _time(file: Path, cells: Cells, sizes: Sizes) -> Speeds:
    return run_worker("benchmarks.peers.ours", file, cells, sizes)


class Ours:
    """`worker.Timed` over an `LLM`; greedy, as peers' benchmarks draw no tokens at all."""

    def __init__(self, file: Path, sizes: Sizes) -> None:
        config = EngineConfig(
            packed_cache="off",  # so that nothing is written while others are measured
            model=str(file),
            threads=sizes.threads,
            max_model_len=sizes.longest,
            max_num_seqs=max(BATCHES.values()),
            kv_cache_gib=KV_CACHE_GIB,
        )
        self._llm = LLM(config=config)
        self.vocab_size: int = self._llm.tokenizer.vocab_size

    def prefill_s(self, prompt: Prompt) -> float:
        start = time.perf_counter()
        self._llm.generate([prompt], _exactly(1), progress=False)
        return time.perf_counter() - start

    def decode_s(self, prompts: list[Prompt], new_tokens: int) -> float:
        done = self._llm.generate(prompts, _exactly(1 + new_tokens), progress=False)
        timings = [completion.choices[0].timing for completion in done]
        return max(t.finished for t in timings) - max(t.first_token for t in timings)


def _exactly(tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)


if __name__ == "__main__":
    main(Ours)
