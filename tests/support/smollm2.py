"""SmolLM2-135M as transformers computes it, read from the GGUF file without any of our own code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch


def transformers_smollm2(path: Path) -> Any:
    """A LlamaForCausalLM in float32 with the file's dequantised weights."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from transformers import LlamaConfig, LlamaForCausalLM

    reader = GGUFReader(path)

    def number(key: str) -> Any:
        return reader.fields[f"llama.{key}"].contents()

    heads, kv_heads = number("attention.head_count"), number("attention.head_count_kv")
    tensors = {t.name: dequantize(t.data, t.tensor_type) for t in reader.tensors}
    config = LlamaConfig(
        vocab_size=tensors["token_embd.weight"].shape[0],
        hidden_size=number("embedding_length"),
        intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=number("context_length"),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_theta=number("rope.freq_base"),
        tie_word_embeddings="output.weight" not in tensors,
        attn_implementation="sdpa",
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.to_empty(device="cpu")
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its buffers are computed
    state = {
        _hub_name(name): torch.from_numpy(np.array(_half_split(name, tensor, heads, kv_heads)))
        for name, tensor in tensors.items()
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model.eval()


def _hub_name(name: str) -> str:
    outside = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    if name in outside:
        return outside[name]
    inside = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    _, layer, module, kind = name.split(".")
    return f"model.layers.{layer}.{inside[module]}.{kind}"


def _half_split(name: str, tensor: np.ndarray, heads: int, kv_heads: int) -> np.ndarray:
    """GGUF pairs neighbouring rows of q and k for RoPE, transformers pairs the halves of a head."""
    if not name.endswith(("attn_q.weight", "attn_k.weight")):
        return tensor
    n = heads if "attn_q" in name else kv_heads
    pairs = tensor.reshape(n, tensor.shape[0] // n // 2, 2, tensor.shape[1])
    return pairs.swapaxes(1, 2).reshape(tensor.shape)
