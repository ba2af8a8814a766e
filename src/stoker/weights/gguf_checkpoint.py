"""A checkpoint in one GGUF file: names and rows brought to the house's conventions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stoker.core.errors import CheckpointError
from stoker.core.model import GenerationDefaults, ModelConfig
from stoker.weights.contract import GGUFTokenizer
from stoker.weights.formats import FloatWeight, Weight
from stoker.weights.gguf_config import generation_defaults, model_config
from stoker.weights.gguf_file import GGUFFile, GGUFTensor
from stoker.weights.gguf_quants import bytes_per_weight, convert, to_float
from stoker.weights.identity import content_revision
from stoker.weights.shapes import check_shape

ROPE_FACTORS = "rope_freqs.weight"

_OTHER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_MODULES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_GEMMA3_MODULES = _MODULES | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_BLOCK = re.compile(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class GGUFCheckpoint:
    """See `contract.Checkpoint`. stored: canonical name → GGUF name."""

    path: Path
    name: str
    revision: str
    config: ModelConfig
    generation: GenerationDefaults
    tokenizer: GGUFTokenizer
    num_weights: int
    nbytes: int
    file: GGUFFile
    stored: dict[str, str]

    def names(self) -> list[str]:
        return sorted(self.stored)

    def weight(self, name: str) -> Weight:
        if name not in self.stored:
            raise CheckpointError(f"{self.path}: tensor {name} is missing")
        stored = self.stored[name]
        tensor = self.file.tensors[stored]
        check_shape(self.config, name, tensor.shape)
        if self.config.family == "llama" and ".attn_q." in stored:
            return self._read(stored, self.config.num_heads)
        if self.config.family == "llama" and ".attn_k." in stored:
            return self._read(stored, self.config.num_kv_heads)
        return self._read(stored, None)

    def _read(self, stored: str, interleaved_heads: int | None) -> Weight:
        """interleaved_heads: the rows are of so many heads, whose RoPE pairs lie side by side."""
        tensor = self.file.tensors[stored]
        vector = len(tensor.shape) == 1
        try:
            if vector:
                data = to_float(self.file.rows(stored), tensor.kind)[0]
                if interleaved_heads:
                    data = data[half_split(len(data), interleaved_heads)]
                return FloatWeight("f32", data)
            rows = self.file.rows(stored)
            if interleaved_heads:
                rows = rows[half_split(len(rows), interleaved_heads)]
            return convert(rows, tensor.kind)
        except NotImplementedError as error:
            raise CheckpointError(
                f"{self.path}: tensor {stored} has type {tensor.kind.name}, which is not supported"
            ) from error


def open_gguf(path: Path) -> GGUFCheckpoint:
    """CheckpointError if the file is damaged or describes a model that is not supported."""
    file = GGUFFile(path)
    where = str(path)
    if file.metadata.get("split.count") not in (None, 0, 1):
        raise CheckpointError(
            f"{path} is one part of a split model; join the parts with llama-gguf-split --merge"
        )
    factors = None
    if ROPE_FACTORS in file.tensors:
        factors = to_float(file.rows(ROPE_FACTORS), file.tensors[ROPE_FACTORS].kind)[0]
    tied = "output.weight" not in file.tensors
    config = model_config(file.metadata, where, tied, factors)
    stored = _canonical_names(file.tensors, config.family)
    if not stored:
        raise CheckpointError(f"{path} has no weights")
    return GGUFCheckpoint(
        path=path,
        name=path.stem,
        revision=content_revision([file.header.tobytes()], [(path, file.header.size)]),
        config=config,
        generation=generation_defaults(file.metadata),
        tokenizer=GGUFTokenizer(
            {k: v for k, v in file.metadata.items() if k.startswith("tokenizer.")}
        ),
        num_weights=sum(math.prod(file.tensors[name].shape) for name in stored.values()),
        nbytes=sum(_memory(file.tensors[name]) for name in stored.values()),
        file=file,
        stored=stored,
    )


def _memory(tensor: GGUFTensor) -> int:
    """Bytes of what `weight` will make of it; vectors become float32."""
    numbers = math.prod(tensor.shape)
    return 4 * numbers if len(tensor.shape) == 1 else int(numbers * bytes_per_weight(tensor.kind))


def half_split(rows: int, heads: int) -> NDArray[np.intp]:
    """Row numbers that turn interleaved RoPE pairs into halves, head by head.

    GGUF files of arch llama keep a head's rows as x0 y0 x1 y1 ..., where (x, y) is a rotated pair;
    half-split order is x0 x1 ... y0 y1 ...
    """
    return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)


def _canonical_names(tensors: dict[str, GGUFTensor], family: str) -> dict[str, str]:
    modules = _GEMMA3_MODULES if family == "gemma3" else _MODULES
    names = {}
    for stored in tensors:
        module, _, kind = stored.rpartition(".")
        if module in _OTHER:
            names[f"{_OTHER[module]}.{kind}"] = stored
        elif (match := _BLOCK.fullmatch(stored)) and match[2] in modules:
            names[f"model.layers.{match[1]}.{modules[match[2]]}.{match[3]}"] = stored
    return names
