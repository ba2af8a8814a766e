"""Builds the runner of an engine process: kernel set, model, page pool."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from stoker.core.config import EngineConfig, Limits
from stoker.kernels.dispatch import get_ops, recordable
from stoker.kernels.ops import Ops, Tensors
from stoker.kernels.packing import CheckpointTensors
from stoker.models.parts import Progress
from stoker.models.registry import build_model
from stoker.runner.runner import ModelRunner
from stoker.weights.contract import Checkpoint

MIN_CACHED_BYTES = 128 << 20
"""Smaller models are packed in less time than Python takes to start."""


def build_runner(
    checkpoint: Checkpoint,
    config: EngineConfig,
    limits: Limits,
    progress: Progress,
    cpus: Sequence[int],
) -> ModelRunner:
    """Load a checkpoint and make its pages ready.

    cpus: a logical CPU for each compute thread to be bound to; empty binds none.

    Raises:
        StartupError: the kernel set cannot run here, or the checkpoint cannot be loaded.
    """
    ops = get_ops(config.kernels, limits.threads, config.isa, cpus)
    with _tensors(checkpoint, config, ops) as tensors:
        model = build_model(
            checkpoint.config,
            checkpoint,
            ops,
            progress,
            tensors=tensors,
            max_positions=limits.max_model_len,
        )
    return ModelRunner(model, ops, limits)


def _tensors(
    checkpoint: Checkpoint, config: EngineConfig, ops: Ops
) -> AbstractContextManager[Tensors]:
    native = recordable(ops)
    if native is None or config.packed_cache == "off" or checkpoint.nbytes < MIN_CACHED_BYTES:
        return nullcontext(CheckpointTensors(checkpoint, ops))
    from stoker.kernels.packed_cache import CachedTensors

    return CachedTensors(Path(config.packed_cache).expanduser(), checkpoint, native)
