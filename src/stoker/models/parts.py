"""Makes a model's layers from a checkpoint's tensors; families call it and only wire.

It may not know which family it serves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from stoker.core.errors import CheckpointError
from stoker.core.model import ModelConfig
from stoker.kernels.ops import Array, Ops, PackedWeight
from stoker.layers.attention import Attention
from stoker.layers.embedding import Embedding
from stoker.layers.linear import Linear
from stoker.layers.mlp import GatedMLP
from stoker.layers.norm import RMSNorm
from stoker.layers.rotary import cos_sin_table
from stoker.weights.checkpoint import Checkpoint
from stoker.weights.formats import FloatWeight, Int4Weight, Int8Weight, Weight

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, from any thread, one call at a time."""


class Parts:
    """Layers by tensor name. Safe to use from several threads.

    Every method raises CheckpointError where a tensor is missing or contradicts the config.
    """

    def __init__(
        self,
        config: ModelConfig,
        checkpoint: Checkpoint,
        ops: Ops,
        max_positions: int,
        progress: Progress,
    ) -> None:
        self.config = config
        self.ops = ops
        self._checkpoint = checkpoint
        self._names = frozenset(checkpoint.names())
        self._progress = progress
        self._loaded = 0
        self._lock = threading.Lock()
        self._cos_sin = cos_sin_table(config.rope, config.head_dim, max_positions)
        self._cos_sin_local = (
            cos_sin_table(config.rope_local, config.head_dim, max_positions)
            if config.rope_local is not None
            else self._cos_sin
        )

    def linear(self, name: str, rows: int, columns: int, *, bias: bool = False) -> Linear:
        """The map [columns] → [rows]. bias: True where the family always has one; otherwise one is
        used where the checkpoint has it."""
        weight = self.packed(f"{name}.weight", rows, columns)
        bias_name = f"{name}.bias"
        if not bias and bias_name not in self._names:
            return Linear(self.ops, weight)
        return Linear(self.ops, weight, self._vector(bias_name, rows))

    def norm(self, name: str, size: int | None = None) -> RMSNorm:
        """An RMS norm of `size` values; default: the hidden size."""
        weight = self._vector(f"{name}.weight", size or self.config.hidden_size)
        return RMSNorm(self.ops, weight, self.config.rms_norm_eps)

    def embedding_and_head(self) -> tuple[Embedding, Linear]:
        """Both ends of the model; tied ones share one packed weight."""
        config = self.config
        shape = (config.vocab_size, config.hidden_size)
        table = self.packed("model.embed_tokens.weight", *shape)
        embedding = Embedding(self.ops, table, config.embedding_scale)
        if config.tie_word_embeddings:
            return embedding, Linear(self.ops, table)
        return embedding, self.linear("lm_head", *shape)

    def attention(self, layer: int, *, qk_norm: bool = False, qkv_bias: bool = False) -> Attention:
        """Layer `layer`'s self-attention, with Hugging Face's names.

        qk_norm: heads are normalised before rotation. qkv_bias: q, k and v must have a bias.
        """
        config = self.config
        name = f"model.layers.{layer}.self_attn"
        hidden = config.hidden_size
        q_rows, kv_rows = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
        window = config.layer_windows[layer]
        return Attention(
            self.ops,
            q=self.linear(f"{name}.q_proj", q_rows, hidden, bias=qkv_bias),
            k=self.linear(f"{name}.k_proj", kv_rows, hidden, bias=qkv_bias),
            v=self.linear(f"{name}.v_proj", kv_rows, hidden, bias=qkv_bias),
            out=self.linear(f"{name}.o_proj", hidden, q_rows),
            q_norm=self.norm(f"{name}.q_norm", config.head_dim) if qk_norm else None,
            k_norm=self.norm(f"{name}.k_norm", config.head_dim) if qk_norm else None,
            cos_sin=self._cos_sin if window is None else self._cos_sin_local,
            head_dim=config.head_dim,
            scale=config.attention_scale,
            window=window,
        )

    def mlp(self, layer: int) -> GatedMLP:
        """Layer `layer`'s gated MLP, with Hugging Face's names."""
        name = f"model.layers.{layer}.mlp"
        hidden, inner = self.config.hidden_size, self.config.intermediate_size
        return GatedMLP(
            self.ops,
            gate=self.linear(f"{name}.gate_proj", inner, hidden),
            up=self.linear(f"{name}.up_proj", inner, hidden),
            down=self.linear(f"{name}.down_proj", hidden, inner),
            activation=self.config.activation,
        )

    def packed(self, name: str, rows: int, columns: int) -> PackedWeight:
        weight = self._weight(name, (rows, columns))
        packed = self.ops.pack(weight)
        self._count(weight)
        return packed

    def _vector(self, name: str, size: int) -> Array:
        weight = self._weight(name, (size,))
        vector = self.ops.vector(weight)
        self._count(weight)
        return vector

    def _weight(self, name: str, shape: tuple[int, ...]) -> Weight:
        weight = self._checkpoint.weight(name)
        if weight.shape != shape:
            raise CheckpointError(
                f"tensor {name} has shape {list(weight.shape)}, but the model's config says "
                f"{list(shape)}"
            )
        return weight

    def _count(self, weight: Weight) -> None:
        with self._lock:
            self._loaded += _nbytes(weight)
            # Files also hold what is not loaded or is stored otherwise; the bar must not overrun.
            self._progress(min(self._loaded, self._checkpoint.nbytes), self._checkpoint.nbytes)


def _nbytes(weight: Weight) -> int:
    match weight:
        case FloatWeight():
            return weight.data.nbytes
        case Int4Weight():
            return weight.q.nbytes + weight.scale.nbytes + weight.minimum.nbytes
        case Int8Weight():
            minimum = 0 if weight.minimum is None else weight.minimum.nbytes
            return weight.q.nbytes + weight.scale.nbytes + minimum
