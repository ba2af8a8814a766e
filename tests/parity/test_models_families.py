"""Every family against transformers: logits of every prompt token and of 32 decode steps.

The prompt goes through the paged path in chunks of odd sizes, two sequences mixed in a batch, with
shuffled page tables and poisoned free pages.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stoker.kernels.dispatch import get_ops
from stoker.models.registry import build_model
from stoker.weights.checkpoint import open_checkpoint
from tests.support.checkpoints import VOCAB, make_tiny
from tests.support.paged import PagedModel

PROMPT, DECODE = 75, 32
CHUNKS = (1, 17, 5, 31, 21)

LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
GEMMA_SCALED = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}

UPPER_WINDOW = {"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 2}
PADDED = {
    # 11 windowed and 2 full layers: KV groups of 2, the last windowed one with a slot to spare.
    "num_hidden_layers": 13,
    "layer_types": [
        "full_attention" if layer in (5, 11) else "sliding_attention" for layer in range(13)
    ],
}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-tied": ("llama-tied", {}),
    "llama-llama3-rope": ("llama3", {}),
    "llama-linear-rope": ("llama", {"rope_parameters": LINEAR}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": ("llama", {"head_dim": 24}),
    "llama-one-kv-head": ("llama", {"num_key_value_heads": 1}),
    "mistral-window-below-prompt": ("mistral", {}),
    "mistral-no-window": ("mistral", {"sliding_window": None}),
    "qwen2-bias": ("qwen2", {}),
    "qwen2-window-on-upper-layers": ("qwen2", UPPER_WINDOW),
    "qwen3-window-on-upper-layers": ("qwen3", UPPER_WINDOW),
    "qwen3-head-norm": ("qwen3", {"head_dim": 32}),
    "gemma3-window-below-prompt": ("gemma3", {}),
    "gemma3-groups-with-padding": ("gemma3", PADDED),
    "gemma3-scaled-global-rope": ("gemma3", {"rope_parameters": GEMMA_SCALED}),
}


@pytest.fixture(scope="module")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Variant name → folder, each made once."""
    made: dict[str, Path] = {}

    def folder(variant: str) -> Path:
        if variant not in made:
            family, overrides = VARIANTS[variant]
            made[variant] = tmp_path_factory.mktemp(variant)
            make_tiny(family, made[variant], **overrides)
        return made[variant]

    return folder


@pytest.mark.parametrize("kernels", ["reference", "cpu"])
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_logits_equal_transformers(checkpoint_folder: Any, variant: str, kernels: Any) -> None:
    folder = checkpoint_folder(variant)
    texts = [_tokens(seed) for seed in (1, 2)]
    expected = _transformers_logits(folder, texts)

    checkpoint = open_checkpoint(str(folder))
    ops = get_ops(kernels, 2)
    model = build_model(checkpoint.config, checkpoint, ops, lambda done, total: None)
    paged = PagedModel(model, checkpoint.config, ops)
    sequences = [paged.sequence("a"), paged.sequence("b")]
    for shares in _schedule():
        parts = [
            (seq, text[seq.num_computed : seq.num_computed + share])
            for seq, text, share in zip(sequences, texts, shares, strict=True)
        ]
        paged.step([part for part in parts if part[1]])

    for seq, want in zip(sequences, expected, strict=True):
        got = torch.from_numpy(np.stack(seq.logits))
        assert got.shape == want.shape
        assert want.std() > 0.1, "the checkpoint's logits say nothing"
        assert (got - want).abs().max() <= 1e-4


def _schedule() -> list[tuple[int, int]]:
    """Tokens of each sequence per step: the second prefills in other chunks, while the first
    already decodes."""
    first = [*CHUNKS, *[1] * DECODE]
    second = [0, 0, *reversed(CHUNKS), *[1] * DECODE]
    first += [0] * (len(second) - len(first))
    return list(zip(first, second, strict=True))


def _tokens(seed: int) -> list[int]:
    assert sum(CHUNKS) == PROMPT
    return [random.Random(seed).randrange(VOCAB) for _ in range(PROMPT + DECODE)]


def _transformers_logits(folder: Path, texts: list[list[int]]) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        return model.eval()(torch.tensor(texts), use_cache=False).logits
