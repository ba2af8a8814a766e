"""A Llama of the 1B class with random weights, as an F16 GGUF file: for speed, not for sense."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from numpy.typing import NDArray

HIDDEN, LAYERS, FFN, HEADS, KV_HEADS, VOCAB, CONTEXT = 2048, 16, 8192, 32, 8, 32000, 8192
SPREAD = 0.02
"""Standard deviation of the weights; keeps logits and activations in a trained model's range."""


def write_random_llama(path: Path) -> None:
    """Write the file (2.2 GB), under another name until it is whole."""
    unfinished = path.with_suffix(".part")
    writer = GGUFWriter(unfinished, "llama")
    _write_config(writer)
    _write_tokenizer(writer)
    for name, shape in _tensors():
        dtype = np.dtype(np.float32 if len(shape) == 1 else np.float16)
        kind = GGMLQuantizationType.F32 if len(shape) == 1 else GGMLQuantizationType.F16
        nbytes = int(np.prod(shape)) * dtype.itemsize
        writer.add_tensor_info(name, shape, dtype, nbytes, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(0)
    for _, shape in _tensors():
        writer.write_tensor_data(_values(random, shape))
    writer.close()
    unfinished.rename(path)


def _values(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.generic]:
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    values: NDArray[np.float32] = random.standard_normal(shape, dtype=np.float32)
    values *= SPREAD
    return values.astype(np.float16)


def _write_config(writer: GGUFWriter) -> None:
    writer.add_name("Random Llama 1B")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCAB)


def _write_tokenizer(writer: GGUFWriter) -> None:
    """A SentencePiece vocabulary that can spell any text in bytes."""
    special = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}
    pieces = list(special) + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = list(special.values()) + [TokenType.BYTE] * 256
    space = "\u2581"
    words = [space] + [f"{space}w{index}" for index in range(VOCAB - len(pieces) - 1)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces + words)
    writer.add_token_scores([-float(index) for index in range(VOCAB)])
    writer.add_token_types([int(kind) for kind in kinds] + [int(TokenType.NORMAL)] * len(words))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _tensors() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and row-major shapes, [out, in] for matrices."""
    kv = HIDDEN // HEADS * KV_HEADS
    yield "token_embd.weight", (VOCAB, HIDDEN)
    yield "output.weight", (VOCAB, HIDDEN)
    yield "output_norm.weight", (HIDDEN,)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm.weight", (HIDDEN,)
        yield f"{block}.attn_q.weight", (HIDDEN, HIDDEN)
        yield f"{block}.attn_k.weight", (kv, HIDDEN)
        yield f"{block}.attn_v.weight", (kv, HIDDEN)
        yield f"{block}.attn_output.weight", (HIDDEN, HIDDEN)
        yield f"{block}.ffn_norm.weight", (HIDDEN,)
        yield f"{block}.ffn_gate.weight", (FFN, HIDDEN)
        yield f"{block}.ffn_up.weight", (FFN, HIDDEN)
        yield f"{block}.ffn_down.weight", (HIDDEN, FFN)
