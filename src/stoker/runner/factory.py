"""Builds the runner of an engine process: kernel set, model, page pool."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.core.config import EngineConfig, Limits
from stoker.kernels.dispatch import get_ops
from stoker.models.parts import Progress
from stoker.models.registry import build_model
from stoker.runner.runner import ModelRunner
from stoker.weights.contract import Checkpoint


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
    model = build_model(
        checkpoint.config, checkpoint, ops, progress, max_positions=limits.max_model_len
    )
    return ModelRunner(model, ops, limits)
