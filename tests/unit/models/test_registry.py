from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from stoker.core.errors import CheckpointError
from stoker.kernels.reference import ReferenceOps
from stoker.models.registry import FAMILIES, build_model
from stoker.weights.checkpoint import open_checkpoint
from tests.support.checkpoints import make_tiny


class Without:
    """A checkpoint that lacks one tensor."""

    def __init__(self, checkpoint: Any, missing: str) -> None:
        self._checkpoint = checkpoint
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checkpoint, name)

    def names(self) -> list[str]:
        return [name for name in self._checkpoint.names() if name != self._missing]

    def weight(self, name: str) -> Any:
        if name == self._missing:
            raise CheckpointError(f"tensor {name} is missing")
        return self._checkpoint.weight(name)


@pytest.fixture(scope="module")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("qwen2")
    make_tiny("qwen2", path)
    return path


def _ignore(done: int, total: int) -> None:
    pass


def test_all_families_of_the_issue_are_there() -> None:
    assert set(FAMILIES) == {"llama", "mistral", "qwen2", "qwen3", "gemma3"}


def test_unknown_family_is_named(qwen2: Path) -> None:
    checkpoint = open_checkpoint(str(qwen2))
    config = dataclasses.replace(checkpoint.config, family="mamba")
    with pytest.raises(CheckpointError, match="mamba, but Stoker runs gemma3, llama"):
        build_model(config, checkpoint, ReferenceOps(), _ignore)


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.2.mlp.up_proj.weight",
        "model.layers.0.self_attn.k_proj.bias",
        "model.norm.weight",
        "model.embed_tokens.weight",
    ],
)
def test_missing_tensor_is_named(qwen2: Path, name: str) -> None:
    checkpoint = Without(open_checkpoint(str(qwen2)), name)
    with pytest.raises(CheckpointError, match=name):
        build_model(checkpoint.config, checkpoint, ReferenceOps(), _ignore)


def test_progress_grows_to_the_total(qwen2: Path) -> None:
    checkpoint = open_checkpoint(str(qwen2))
    seen: list[tuple[int, int]] = []
    build_model(
        checkpoint.config,
        checkpoint,
        ReferenceOps(),
        lambda done, total: seen.append((done, total)),
    )
    done = [d for d, _ in seen]
    assert done == sorted(done) and len(done) == len(checkpoint.names())
    assert seen[-1] == (checkpoint.nbytes, checkpoint.nbytes)


def test_tied_head_shares_the_packed_embedding(qwen2: Path) -> None:
    checkpoint = open_checkpoint(str(qwen2))
    model = build_model(checkpoint.config, checkpoint, ReferenceOps(), _ignore)
    assert model.head.weight is model.embedding.table
