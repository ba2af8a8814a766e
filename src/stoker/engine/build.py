"""Checkpoint + config + machine → EngineCore. The API process never imports this."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from stoker.core.config import EngineConfig, Limits, resolve
from stoker.engine.admission import engine_info
from stoker.engine.core import EngineCore
from stoker.engine.machine import machine_facts
from stoker.engine.pinning import pinned_cpus
from stoker.engine.wire import EngineInfo
from stoker.memory.manager import MemoryManager
from stoker.runner.factory import build_runner
from stoker.sched.scheduler import Scheduler
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from stoker.weights.contract import resident_bytes


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    core: EngineCore
    info: EngineInfo
    checkpoint: Checkpoint
    cpus: tuple[int, ...]
    """CPUs that the compute threads are bound to, the first one meant for the caller; or empty."""


def build_engine(config: EngineConfig, report: Callable[[int, int], None]) -> BuiltEngine:
    """Load the model and put an engine round it; `report(done, total)` in bytes while loading.

    Raises:
        StartupError: the model cannot be loaded or an option contradicts it.
    """
    checkpoint = open_checkpoint(config.model, config.revision)
    weight_bytes = resident_bytes(checkpoint, config.kernels)
    machine = machine_facts()
    limits = resolve(config, checkpoint.config, weight_bytes, machine)
    cpus = pinned_cpus(limits.threads, machine) if config.pin_threads else ()
    runner = build_runner(checkpoint, config, limits, report, cpus)
    memory = MemoryManager(
        limits.kv, limits.num_pages, config.prefix_caching, _cache_domain(checkpoint, limits)
    )
    eos_token_ids = frozenset(checkpoint.generation.eos_token_ids)
    scheduler = Scheduler(limits, memory, eos_token_ids, time.time)
    info = engine_info(limits, config, weight_bytes, checkpoint.config.hidden_size)
    return BuiltEngine(EngineCore(scheduler, runner), info, checkpoint, cpus)


def _cache_domain(checkpoint: Checkpoint, limits: Limits) -> str:
    """KV pages are the same only for the same weights in the same number format."""
    return f"{checkpoint.revision}/{limits.kv.dtype}"
