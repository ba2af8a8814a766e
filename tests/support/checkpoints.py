"""Tiny random checkpoints for tests: a folder as transformers writes it, or a GGUF file.

The weights are random but strong (unit-variance projections, norms and biases away from their
neutral values), so that a wrong norm convention, a lost bias or a swapped row changes the logits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FAMILIES = (
    "llama",
    "llama-tied",
    "llama3",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma3",
)
"""Names `make_tiny` knows. llama3 is llama with the llama3 RoPE scaling."""

VOCAB = 512
SPECIAL_TOKENS = ("<|pad|>", "<|bos|>", "<|im_start|>", "<|im_end|>")
"""Ids 0, 1, 2, 3 of the tiny tokenizer."""

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_SENTENCES = (
    "The quick brown fox jumps over the lazy dog while the small grey cat sleeps in the sun.",
    "A page holds a fixed number of tokens of every layer; a page table says where each one is.",
    "What is the capital of France? The capital of France is Paris, a city on the river Seine.",
    "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)\n",
    "Once upon a time there was a stoker who kept the fire of a great engine burning all night.",
    "Schöne Grüße aus Köln, naïve café, smørrebrød, 東京の天気は晴れです。 Привет, мир! 1234567890",
    '{"role": "user", "content": "Tell me a story about three brave engineers and one machine."}',
)

_BASE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "initializer_range": 0.125,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 3,
    "tie_word_embeddings": False,
}

_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}

_FAMILY: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama3": ("Llama", {"rope_parameters": _LLAMA3_ROPE}),
    "mistral": ("Mistral", {"sliding_window": 32}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {}),
    "gemma3": (
        "Gemma3",
        {
            "num_hidden_layers": 6,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
            "sliding_window": 32,
            "query_pre_attn_scalar": 24,
            "tie_word_embeddings": True,
        },
    ),
}


def make_tiny(
    family: str,
    path: Path,
    *,
    dtype: str = "float32",
    seed: int = 0,
    max_shard_size: str = "1GB",
    **overrides: Any,
) -> None:
    """Write a random checkpoint of `family` (see FAMILIES) with a tokenizer into folder `path`.

    dtype: float32, float16 or bfloat16. max_shard_size: as in transformers; small values give
    several files and an index. overrides: fields of the transformers config.
    """
    import torch
    import transformers

    name, changes = _FAMILY[family]
    config_class = getattr(transformers, f"{name}{'Text' if name == 'Gemma3' else ''}Config")
    config = config_class(**{**_BASE, **changes, **overrides})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, f"{name}ForCausalLM")(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.2)
    model.to(getattr(torch, dtype)).save_pretrained(path, max_shard_size=max_shard_size)
    write_tokenizer(path)


def write_tokenizer(path: Path, vocab_size: int = VOCAB) -> None:
    """Write tokenizer.json (byte-level BPE, at most `vocab_size` ids) and tokenizer_config.json."""
    path.mkdir(parents=True, exist_ok=True)
    tiny_tokenizer(vocab_size).save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<|bos|>",
                "eos_token": "<|im_end|>",
                "pad_token": "<|pad|>",
                "chat_template": CHAT_TEMPLATE,
                "clean_up_tokenization_spaces": False,
            },
            indent=2,
        )
    )


def tiny_tokenizer(vocab_size: int = VOCAB) -> Any:
    """A `tokenizers.Tokenizer` trained on a few sentences; any text round-trips through it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        _SENTENCES,
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def write_gguf(
    path: Path,
    *,
    quant: str | Mapping[str, str] = "F32",
    seed: int = 0,
    hidden: int = 64,
    ffn: int = 128,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    tied: bool = False,
    metadata: Mapping[str, Any] | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Write a random llama-arch GGUF with the tiny tokenizer; return its float32 tensors by name.

    quant: a name of gguf.GGMLQuantizationType for every matrix, or one per GGUF tensor name (others
    stay F32); of those, gguf can write F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0. metadata: extra
    uint32, float, string or bool keys. extra: more float32 tensors. Projections are written as they
    are: q and k are in GGUF's interleaved row order, so a reader that un-permutes them gets other
    rows than it was given.
    """
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    _add_architecture(writer, hidden, ffn, layers, heads, kv_heads)
    _add_tokenizer(writer)
    for key, value in (metadata or {}).items():
        _add_value(writer, key, value)
    tensors = _random_llama(seed, hidden, ffn, layers, heads, kv_heads, tied) | dict(extra or {})
    for name, tensor in tensors.items():
        kind = quant if isinstance(quant, str) else quant.get(name, "F32")
        if tensor.ndim == 1:
            kind = "F32"
        kind_id = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind_id), raw_dtype=kind_id)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def _add_architecture(
    writer: Any, hidden: int, ffn: int, layers: int, heads: int, kv_heads: int
) -> None:
    writer.add_context_length(1024)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(ffn)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_vocab_size(VOCAB)


def _add_tokenizer(writer: Any) -> None:
    model = json.loads(tiny_tokenizer().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    tokens += [f"[unused{i}]" for i in range(VOCAB - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL_TOKENS else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_pad_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(3)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_value(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)


def _random_llama(
    seed: int, hidden: int, ffn: int, layers: int, heads: int, kv_heads: int, tied: bool
) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    kv_rows = hidden // heads * kv_heads

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    def norm() -> np.ndarray:
        return (1 + 0.2 * random.standard_normal(hidden)).astype(np.float32)

    tensors = {"token_embd.weight": matrix(VOCAB, hidden), "output_norm.weight": norm()}
    if not tied:
        tensors["output.weight"] = matrix(VOCAB, hidden)
    for layer in range(layers):
        block = {
            "attn_norm": norm(),
            "ffn_norm": norm(),
            "attn_q": matrix(hidden, hidden),
            "attn_k": matrix(kv_rows, hidden),
            "attn_v": matrix(kv_rows, hidden),
            "attn_output": matrix(hidden, hidden),
            "ffn_gate": matrix(ffn, hidden),
            "ffn_up": matrix(ffn, hidden),
            "ffn_down": matrix(hidden, ffn),
        }
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in block.items()}
    return tensors


def dequantised(weight: Any) -> np.ndarray:
    """float32 values of a `formats.Weight`, by the definitions in that module."""
    if hasattr(weight, "data"):
        if weight.format == "bf16":
            return (weight.data.astype(np.uint32) << 16).view(np.float32)
        return weight.data.astype(np.float32)
    q, group = weight.q, getattr(weight, "group", 32)
    if q.dtype == np.uint8:
        halves = q.reshape(q.shape[0], -1, 1, 16)
        q = np.concatenate([halves & 15, halves >> 4], axis=-2)
        q = q.astype(np.int8) - (8 if weight.minimum is None else 0)
    grouped = q.reshape(q.shape[0], -1, group).astype(np.float32)
    values = grouped * weight.scale.astype(np.float32)[..., None]
    if weight.minimum is not None:
        values = values + weight.minimum.astype(np.float32)[..., None]
    return values.reshape(q.shape[0], -1)
