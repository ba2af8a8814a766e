"""Makes a model's layers from a checkpoint's tensors; families call it and only wire.

It may not know which family it serves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from stoker.core.model import ModelConfig, RopeConfig
from stoker.kernels.ops import Array, Ops, PackedWeight, Tensors
from stoker.layers.attention import Attention
from stoker.layers.embedding import Embedding
from stoker.layers.linear import Linear
from stoker.layers.mlp import GatedMLP
from stoker.layers.norm import RMSNorm
from stoker.layers.rotary import cos_sin_table
from stoker.weights.contract import Checkpoint, resident_bytes

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, from any thread, one call at a time."""


class Parts:
    """Layers by Hugging Face's tensor names. Safe to use from several threads.

    Every method raises CheckpointError where a tensor is missing or contradicts the config.
    """

    def __init__(
        self,
        config: ModelConfig,
        checkpoint: Checkpoint,
        ops: Ops,
        tensors: Tensors,
        max_positions: int,
        progress: Progress,
    ) -> None:
        self.config = config
        self.ops = ops
        self._tensors = tensors
        self._total = resident_bytes(checkpoint, ops.name)
        self._names = frozenset(checkpoint.names())
        self._progress = progress
        self._loaded = 0
        self._lock = threading.Lock()
        self._cos_sin = self._rotary(config.rope, max_positions)
        self._cos_sin_local = (
            self._cos_sin
            if config.rope_local is None
            else self._rotary(config.rope_local, max_positions)
        )

    def linear(self, name: str, *, bias: bool = False) -> Linear:
        """bias: True where the family always has one; otherwise the checkpoint decides."""
        weight = self._packed(f"{name}.weight")
        if not bias and f"{name}.bias" not in self._names:
            return Linear(self.ops, weight)
        return Linear(self.ops, weight, self._vector(f"{name}.bias"))

    def norm(self, name: str) -> RMSNorm:
        return RMSNorm(self.ops, self._vector(f"{name}.weight"), self.config.rms_norm_eps)

    def embedding_and_head(self) -> tuple[Embedding, Linear]:
        """Both ends of the model; tied ones share one packed weight."""
        table = self._packed("model.embed_tokens.weight")
        embedding = Embedding(self.ops, table, self.config.embedding_scale)
        if self.config.tie_word_embeddings:
            return embedding, Linear(self.ops, table)
        return embedding, self.linear("lm_head")

    def attention(self, layer: int, *, head_norm: bool = False, bias: bool = False) -> Attention:
        """Self-attention of one layer.

        head_norm: q and k are normalised per head before rotation. bias: q, k and v must have one.
        """
        config = self.config
        name = f"model.layers.{layer}.self_attn"
        window = config.layer_windows[layer]
        return Attention(
            self.ops,
            q=self.linear(f"{name}.q_proj", bias=bias),
            k=self.linear(f"{name}.k_proj", bias=bias),
            v=self.linear(f"{name}.v_proj", bias=bias),
            out=self.linear(f"{name}.o_proj"),
            q_norm=self.norm(f"{name}.q_norm") if head_norm else None,
            k_norm=self.norm(f"{name}.k_norm") if head_norm else None,
            cos_sin=self._cos_sin if window is None else self._cos_sin_local,
            head_dim=config.head_dim,
            scale=config.attention_scale,
            window=window,
        )

    def mlp(self, layer: int) -> GatedMLP:
        """Gated MLP of one layer."""
        name = f"model.layers.{layer}.mlp"
        return GatedMLP(
            self.ops,
            gate=self.linear(f"{name}.gate_proj"),
            up=self.linear(f"{name}.up_proj"),
            down=self.linear(f"{name}.down_proj"),
            activation=self.config.activation,
        )

    def _rotary(self, rope: RopeConfig, max_positions: int) -> Array:
        return self.ops.array(cos_sin_table(rope, self.config.head_dim, max_positions))

    def _packed(self, name: str) -> PackedWeight:
        packed = self._tensors.packed(name)
        self._count(packed.nbytes)
        return packed

    def _vector(self, name: str) -> Array:
        vector = self._tensors.vector(name)
        self._count(vector.nbytes)
        return vector

    def _count(self, nbytes: int) -> None:
        with self._lock:
            self._loaded += nbytes
            # Padding, or a rare type that turns out larger than foreseen: the bar must not overrun.
            self._progress(min(self._loaded, self._total), self._total)
