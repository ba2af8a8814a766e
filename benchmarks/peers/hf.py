"""Hugging Face transformers on the same file, dequantised to float32: its fastest format on a CPU.

The bare model with a KV cache and argmax; no `generate()`, whose bookkeeping would only cost it.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.cells import Sizes, Speeds
from benchmarks.peers.engines import Cells, Engine, run_worker
from benchmarks.peers.worker import Prompt, main


def transformers(file: Path) -> Engine | None:
    """None where transformers or the loader of its GGUF files is not installed."""
    needed = ("torch", "transformers", "accelerate", "gguf")
    if any(importlib.util.find_spec(name) is None for name in needed):
        return None
    return Engine("transformers", "f32", file, _time)


def _time(file: Path, cells: Cells, sizes: Sizes) -> Speeds:
    return run_worker("benchmarks.peers.hf", file, cells, sizes)


class Transformers:
    """`worker.Timed` over a causal language model."""

    def __init__(self, file: Path, sizes: Sizes) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(sizes.threads)
        self._torch = torch
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=torch.float32
        )
        self._model = model.eval()
        self.vocab_size: int = self._model.config.vocab_size

    def prefill_s(self, prompt: Prompt) -> float:
        start = time.perf_counter()
        self._step(self._torch.tensor([prompt]), None)
        return time.perf_counter() - start

    def decode_s(self, prompts: list[Prompt], new_tokens: int) -> float:
        ids, cache = self._step(self._torch.tensor(prompts), None)
        start = time.perf_counter()
        for _ in range(new_tokens):
            ids, cache = self._step(ids, cache)
        return time.perf_counter() - start

    def _step(self, ids: Any, cache: Any) -> tuple[Any, Any]:
        """The next token of every row, int64 [B, 1], and the cache behind it."""
        with self._torch.inference_mode():
            out = self._model(
                input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            return out.logits[:, -1].argmax(-1, keepdim=True), out.past_key_values


if __name__ == "__main__":
    main(Transformers)
