"""The llama3 scaling is recovered from its factors."""

import numpy as np
import pytest

from stoker.core.errors import CheckpointError
from stoker.weights.rope_factors import llama3_factors, llama3_rope


@pytest.mark.parametrize(
    ("theta", "factor", "original", "head_dim"),
    [(5e5, 8.0, 8192, 128), (5e5, 32.0, 8192, 64), (1e4, 4.0, 3000, 128), (1e4, 8.0, 128, 16)],
)
def test_parameters_come_back(theta, factor, original, head_dim):
    factors = llama3_factors(theta, factor, original, head_dim).astype(np.float32)
    rope = llama3_rope(theta, factors, head_dim, "file")
    assert (rope.scaling, rope.factor) == ("llama3", factor)
    assert (rope.low_freq_factor, rope.high_freq_factor) == (1.0, 4.0)
    again = llama3_factors(theta, factor, rope.original_max_position, head_dim)
    np.testing.assert_allclose(again, factors, rtol=1e-4)
    if head_dim >= 64:
        assert rope.original_max_position == original


def test_factors_agree_with_transformers():
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = LlamaConfig(
        hidden_size=256, num_attention_heads=2, head_dim=128, rope_parameters=parameters
    )
    frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 500000.0 ** -(np.arange(0, 128, 2) / 128)
    np.testing.assert_allclose(
        plain / frequencies.numpy(), llama3_factors(500000.0, 8.0, 8192, 128), rtol=1e-5
    )


@pytest.mark.parametrize("factors", [np.linspace(1, 9, 32), np.full(32, 0.5), np.ones(7) * 2])
def test_another_scaling_is_refused(factors):
    with pytest.raises(CheckpointError, match="rope_freqs"):
        llama3_rope(1e4, factors.astype(np.float32), 64, "file")
