"""What a model is, as far as other rooms need to know: shapes, windows, KV groups."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu_tanh"]
RopeScaling = Literal["none", "linear", "llama3"]
KVDtype = Literal["f32", "f16", "bf16"]

KV_DTYPE_BYTES: dict[KVDtype, int] = {"f32": 4, "f16": 2, "bf16": 2}

PAGE_SIZE = 16
"""Tokens per KV page. One number for the house: kernels, hashes and hand-over all build on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary embedding, half-split pairing. Scalings follow Hugging Face's `rope_scaling`."""

    theta: float
    scaling: RopeScaling = "none"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The architecture of one checkpoint, whatever file format it came in."""

    family: str
    """A name in `models.registry`: llama, mistral, qwen2, qwen3, gemma3."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    rope: RopeConfig
    rope_local: RopeConfig | None = None
    """RoPE of windowed layers, where it differs (Gemma 3)."""
    layer_windows: tuple[int | None, ...]
    """Per layer: None = full attention; w = a token sees itself and the w - 1 before it."""
    attention_scale: float
    """Multiplies q·k."""
    embedding_scale: float = 1.0
    """Multiplies token embeddings (Gemma: sqrt(hidden_size))."""
    activation: Activation = "silu"
    tie_word_embeddings: bool = False


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers of one window that share a page table. The last group of a window may be short."""

    layers: tuple[int, ...]
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KVLayout:
    """How KV pages look. Every page of every group has the same bytes, so one pool serves all.

    A page holds, for each of its layers, K [kv_heads, head_dim, PAGE_SIZE] and then
    V [kv_heads, PAGE_SIZE, head_dim].
    K is stored transposed so that 16 keys of one channel lie side by side.
    """

    groups: tuple[KVGroup, ...]
    layers_per_page: int
    num_kv_heads: int
    head_dim: int
    dtype: KVDtype

    @property
    def page_bytes(self) -> int:
        values = self.layers_per_page * 2 * self.num_kv_heads * self.head_dim * PAGE_SIZE
        return values * KV_DTYPE_BYTES[self.dtype]

    def pages_needed(self, num_tokens: int, chunk: int) -> int:
        """Most pages a sequence of `num_tokens` holds at once, computing `chunk` tokens a step."""
        full = math.ceil(num_tokens / PAGE_SIZE)
        total = 0
        for group in self.groups:
            if group.window is None:
                total += full
            else:
                # The window before the chunk, the chunk, and one page because neither is aligned.
                total += min(full, math.ceil((group.window + chunk) / PAGE_SIZE) + 1)
        return total


def kv_layout(model: ModelConfig, dtype: KVDtype) -> KVLayout:
    """Split the layers into groups of equal size and equal window.

    Few groups mean short page tables, many mean no padding: take the largest group size that wastes
    at most a tenth of the cache. Gemma 3 270M (15 local, 3 global layers) gets 6 groups of 3.
    """
    by_window: dict[int | None, list[int]] = defaultdict(list)
    for layer, window in enumerate(model.layer_windows):
        by_window[window].append(layer)
    sizes = range(min(len(layers) for layers in by_window.values()), 0, -1)
    size = next(s for s in sizes if _padded(by_window, s) <= 1.1 * model.num_layers)
    groups = tuple(
        KVGroup(tuple(layers[i : i + size]), window)
        for window, layers in by_window.items()
        for i in range(0, len(layers), size)
    )
    return KVLayout(
        groups=groups,
        layers_per_page=size,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        dtype=dtype,
    )


def _padded(by_window: dict[int | None, list[int]], size: int) -> int:
    """Layers' worth of cache when every group is padded to `size` layers."""
    return sum(math.ceil(len(layers) / size) * size for layers in by_window.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDefaults:
    """What the checkpoint recommends (generation_config.json); a request may override each."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    eos_token_ids: tuple[int, ...] = ()
    """Every id that ends an answer."""
