"""vLLM's CPU backend in float32, its fastest format on AVX2, where it can be imported.

It does not read GGUF files by itself, so transformers writes the dequantised model out once.
"""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.cache import cache_folder
from benchmarks.peers.cells import BATCHES, Sizes, Speeds
from benchmarks.peers.engines import Cells, Engine, run_worker
from benchmarks.peers.worker import Prompt, main

KV_CACHE_GIB = 2


def vllm(file: Path) -> Engine | None:
    """None where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        return None
    return Engine("vllm", "f32", file, _time)


def _time(file: Path, cells: Cells, sizes: Sizes) -> Speeds:
    return run_worker("benchmarks.peers.vllm_cpu", file, cells, sizes)


def _folder(file: Path) -> Path:
    """The dequantised model as a Hugging Face folder in the cache."""
    folder = cache_folder("models") / f"{file.stem}.f32"
    if not (folder / "config.json").exists():
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name)
        model.float().save_pretrained(folder)
    return folder


class Vllm:
    """`worker.Timed` over `vllm.LLM`."""

    def __init__(self, file: Path, sizes: Sizes) -> None:
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{sizes.threads - 1}"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(KV_CACHE_GIB)
        from vllm import LLM, SamplingParams

        self._params = SamplingParams
        self._llm = LLM(
            model=str(_folder(file)),
            skip_tokenizer_init=True,
            dtype="float32",
            max_model_len=sizes.longest,
            max_num_seqs=max(BATCHES.values()),
            enable_prefix_caching=False,
        )
        self.vocab_size: int = self._llm.llm_engine.model_config.get_vocab_size()

    def prefill_s(self, prompt: Prompt) -> float:
        return self._generate_s([prompt], 1)

    def decode_s(self, prompts: list[Prompt], new_tokens: int) -> float:
        """By difference: its outputs do not say when a step was done."""
        return self._generate_s(prompts, 1 + new_tokens) - self._generate_s(prompts, 1)

    def _generate_s(self, prompts: list[Prompt], tokens: int) -> float:
        params = self._params(max_tokens=tokens, temperature=0.0, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        ids = [{"prompt_token_ids": prompt} for prompt in prompts]
        self._llm.generate(ids, params, use_tqdm=False)
        return time.perf_counter() - start


if __name__ == "__main__":
    main(Vllm)
