"""The demo model against transformers on ordinary text.

The reference path gives its logits; the default path (native kernels, quantised activations, bf16
KV) its predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from stoker.core.config import EngineConfig, KernelName
from stoker.core.model import KVDtype
from stoker.kernels.dispatch import get_ops
from stoker.models.registry import build_model
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from tests.support.paged import PagedModel
from tests.support.smollm2 import transformers_smollm2

PROSE = Path(__file__).parent.parent / "data" / "prose.txt"
NUM_TOKENS, CHUNK = 2048, 512


@dataclass(frozen=True)
class Truth:
    """The text's tokens and what transformers makes of them, as hidden rows and a head."""

    checkpoint: Checkpoint
    token_ids: list[int]
    hidden: torch.Tensor
    head: torch.nn.Module

    def logits(self, start: int, end: int) -> torch.Tensor:
        with torch.no_grad():
            return self.head(self.hidden[start:end])


@pytest.fixture(scope="module")
def truth() -> Truth:
    checkpoint = open_checkpoint("")
    text = PROSE.read_text(encoding="utf-8")
    token_ids = load_tokenizer(checkpoint.tokenizer).encode(text, add_special_tokens=False)
    token_ids = token_ids[:NUM_TOKENS]
    assert len(token_ids) == NUM_TOKENS
    model = transformers_smollm2(checkpoint.path)
    with torch.no_grad():
        hidden = model.model(torch.tensor([token_ids]), use_cache=False).last_hidden_state[0]
    return Truth(checkpoint, token_ids, hidden, model.lm_head)


def test_reference_logits_equal_transformers(truth: Truth) -> None:
    worst = max(
        float((got - want).abs().max()) for got, want in _pairs(truth, "reference", "f32", 600)
    )
    assert worst <= 1e-3


def test_default_path_predicts_the_same(truth: Truth) -> None:
    default = EngineConfig()
    total = 0.0
    for got, want in _pairs(truth, default.kernels, default.kv_dtype, NUM_TOKENS):
        for rows, expected in zip(got.split(64), want.split(64), strict=True):
            log_p, log_q = expected.log_softmax(-1), rows.log_softmax(-1)
            total += float((log_p.exp() * (log_p - log_q)).sum())
    assert total / NUM_TOKENS < 0.01


def _pairs(
    truth: Truth, kernels: KernelName, kv_dtype: KVDtype, num_tokens: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Our logits and transformers' of one chunk after the other."""
    config = truth.checkpoint.config
    ops = get_ops(kernels, 2)
    model = build_model(
        config, truth.checkpoint, ops, lambda done, total: None, max_positions=num_tokens
    )
    paged = PagedModel(model, config, ops, num_pages=-(-num_tokens // 16), kv_dtype=kv_dtype)
    sequence = paged.sequence()
    for start in range(0, num_tokens, CHUNK):
        end = min(start + CHUNK, num_tokens)
        paged.step([(sequence, truth.token_ids[start:end])])
        yield torch.from_numpy(np.stack(sequence.logits)), truth.logits(start, end)
        sequence.logits.clear()
