"""What a checkpoint is to the rest of the house, whatever file format it came in.

Torch-free: the API process reads a checkpoint's config, tokenizer and defaults with nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stoker.core.config import KernelName
from stoker.core.model import GenerationDefaults, ModelConfig
from stoker.weights.formats import Weight


@dataclass(frozen=True, slots=True)
class HubTokenizer:
    """A tokenizer in Hugging Face's files: tokenizer.json, tokenizer_config.json, *.jinja."""

    folder: Path


@dataclass(frozen=True, slots=True)
class GGUFTokenizer:
    """A tokenizer in GGUF metadata: the file's `tokenizer.*` keys and values, lists for arrays."""

    metadata: Mapping[str, Any]


TokenizerSource = HubTokenizer | GGUFTokenizer


class Checkpoint(Protocol):
    """One opened model: facts at once, weights on demand from the mapped files."""

    @property
    def path(self) -> Path: ...

    @property
    def name(self) -> str:
        """Short id, for /v1/models."""

    @property
    def revision(self) -> str:
        """Identity of the content, 32 hex digits; see `identity`. The same for a copy elsewhere."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def generation(self) -> GenerationDefaults: ...

    @property
    def tokenizer(self) -> TokenizerSource: ...

    @property
    def num_weights(self) -> int:
        """Numbers in all tensors."""

    @property
    def nbytes(self) -> int:
        """Bytes that all tensors take in memory, in the formats of `weights.formats`."""

    def names(self) -> list[str]:
        """The tensors there are, by their Hugging Face names, sorted."""

    def weight(self, name: str) -> Weight:
        """One tensor, in the format of its file; may be called from several threads.

        Matrices are [N, K]. Rows of q and k are in half-split RoPE order. A norm weight is the
        factor really applied, float32 where that is not what the file holds. CheckpointError,
        naming the tensor, if it is missing, of a shape that the config rules out, or unreadable.
        """


def resident_bytes(checkpoint: Checkpoint, kernels: KernelName) -> int:
    """Memory that a kernel set takes for the weights: the reference set unpacks all to float32."""
    return 4 * checkpoint.num_weights if kernels == "reference" else checkpoint.nbytes
