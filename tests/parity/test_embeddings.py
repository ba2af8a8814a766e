"""Embeddings of a tiny checkpoint against transformers' hidden states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from stoker.core.config import EngineConfig
from stoker.core.errors import InvalidRequest
from stoker.core.request import Pooling
from stoker.engine.llm import LLM
from tests.support.checkpoints import make_tiny

PROMPTS = [[5, 9, 2, 77, 31] * 9, [8], [4, 4, 7]]


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_vectors_are_those_of_transformers(family: str, pooling: Pooling, tmp_path: Path) -> None:
    make_tiny(family, tmp_path)
    config = EngineConfig(kv_dtype="f32", max_num_batched_tokens=16, max_num_seqs=4)
    llm = LLM(str(tmp_path), kernels="reference", config=config)
    reference = AutoModel.from_pretrained(tmp_path, dtype=torch.float32)
    vectors = llm.embed(PROMPTS, pooling=pooling)
    for prompt, vector in zip(PROMPTS, vectors, strict=True):
        with torch.no_grad():
            states = reference(torch.tensor([prompt])).last_hidden_state[0]
        state = states[-1] if pooling == "last" else states.mean(0)
        expected = torch.nn.functional.normalize(state, dim=0).numpy()
        assert np.allclose(vector, expected, atol=1e-4)
    [short] = llm.embed(PROMPTS[:1], pooling=pooling, dimensions=8)
    assert np.allclose(short, vectors[0][:8] / np.linalg.norm(vectors[0][:8]), atol=1e-6)
    with pytest.raises(InvalidRequest, match="dimensions is 10000"):
        llm.embed(PROMPTS, dimensions=10_000)
