"""Every option of the engine and the server, each with its default and one line of doc.

The command line is generated from these fields (`cli/options.py`). Nothing patches a config after
it was built: what depends on model and machine is computed once, by `resolve()`, into `Limits`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from stoker.core.errors import ConfigError
from stoker.core.model import KVDtype, KVLayout, ModelConfig, kv_layout
from stoker.core.request import Pooling

GIB = 1024**3

MIN_BUDGET, MAX_BUDGET = 64, 512
"""Bounds of the default token budget. Wider steps gain no speed on a CPU."""

MAX_THREADS = 1024

STEP_WORK = 64 * GIB
"""Tokens x bytes of weights that one core gets through in about a second, at 4 to 8 bits a weight:
an order of magnitude (a Zen 3 core does 150 to 250 G operations a second)."""

KernelName = Literal["cpu", "reference"]
IsaName = Literal["auto", "avx512", "vnni", "avx2", "portable"]


def option(default: Any, doc: str) -> Any:
    """A dataclass field with a doc line; the option's name is the field's, with dashes."""
    return dataclasses.field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """One engine on one model."""

    model: str = option("", "Folder, GGUF file or Hugging Face id; empty: the demo model")
    revision: str | None = option(None, "Branch, tag or commit, for a model loaded by id")
    kernels: KernelName = option("cpu", "Kernel set: cpu (native) or reference (PyTorch, slow)")
    isa: IsaName = option("auto", "Instruction set of the cpu kernels; auto: the CPU's best")
    kv_dtype: KVDtype = option("bf16", "Number format of the KV cache: bf16, f16 or f32")
    max_model_len: int | None = option(
        None, "Longest prompt + output, tokens; default: the model's"
    )
    max_num_seqs: int = option(64, "Most sequences in one step")
    max_num_batched_tokens: int | None = option(
        None, "Token budget of one step; default: from weights and cores, so that steps are short"
    )
    num_pages: int | None = option(None, "KV pages of 16 tokens; default: from memory")
    kv_cache_gib: float | None = option(None, "Memory for the KV cache; default: from free memory")
    memory_fraction: float = option(0.5, "Share of free memory that the KV cache may take")
    prefix_caching: bool = option(True, "Reuse KV pages of equal prefixes")
    max_queue: int = option(1024, "Requests that may wait; more are refused with 503")
    threads: int | None = option(None, "Compute threads; default: the physical cores")
    pin_threads: bool = option(False, "Bind each compute thread to a physical core of its own")
    packed_cache: str = option(
        "~/.cache/stoker/packed",
        "Folder where large models are kept as the kernels read them; off: none",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """The HTTP face of one engine."""

    host: str = option("127.0.0.1", "Address to listen on")
    port: int = option(8000, "Port to listen on")
    served_model_name: str | None = option(None, "Name in /v1/models; default: from the checkpoint")
    api_key: str | None = option(None, "Bearer token to require on all that costs work")
    cors_origins: tuple[str, ...] = option((), "Origins that browsers may call from; * for any")
    drain_timeout_s: float = option(30.0, "Seconds that running requests get to finish on SIGTERM")
    health_timeout_s: float = option(20.0, "Seconds without a sign of life until /health fails")
    max_body_mib: int = option(16, "Largest request body")
    pooling: Pooling = option("last", "What /v1/embeddings takes of a text: last token or mean")
    access_log: bool = option(True, "Log each request at its end, one line of JSON")
    chat_template: str | None = option(None, "Jinja file to use instead of the model's template")


def check_serving(config: ServeConfig) -> None:
    """Raises ConfigError for a number that no server can work with."""
    least = {"drain_timeout_s": 0, "health_timeout_s": 1, "max_body_mib": 1}
    for name, low in least.items():
        value = getattr(config, name)
        if not value >= low:  # NaN compares to nothing
            raise ConfigError(f"{name} is {value}, but must be at least {low}", param=name)


@dataclass(frozen=True, slots=True)
class Machine:
    """What `resolve` needs to know of the machine, in bytes and cores."""

    free_memory: int
    physical_cores: int
    """That many threads find a core of their own: limits of control groups count."""
    core_cpus: tuple[int, ...] = ()
    """Of each physical core one logical CPU that this process may run on, ascending; empty where
    the system does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the engine may use: no field is optional any more."""

    kv: KVLayout
    vocab_size: int
    num_pages: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    threads: int


def resolve(
    config: EngineConfig, model: ModelConfig, weight_bytes: int, machine: Machine
) -> Limits:
    """Turn options, model and machine into numbers.

    Raises:
        ConfigError: an option contradicts the model or the machine; names both numbers.
    """
    _check_ranges(config)
    if weight_bytes > machine.free_memory:
        raise ConfigError(
            f"the weights take {weight_bytes / GIB:.2f} GiB, but only "
            f"{machine.free_memory / GIB:.2f} GiB of memory are free",
            param="model",
        )
    max_model_len = _max_model_len(config, model)
    _check_rotary(model, max_model_len, machine.free_memory - weight_bytes)
    threads = config.threads or machine.physical_cores
    budget = _token_budget(config, weight_bytes, threads)
    layout = kv_layout(model, config.kv_dtype)
    num_pages = _num_pages(config, layout, weight_bytes, machine, max_model_len, budget)
    return Limits(
        kv=layout,
        vocab_size=model.vocab_size,
        num_pages=num_pages,
        max_model_len=max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=budget,
        threads=threads,
    )


def check_server(config: ServeConfig) -> None:
    """Raise ConfigError for an option that cannot work, whatever the model and the machine."""
    if config.api_key == "":
        raise ConfigError("api_key is empty, so that no key would be one", param="api_key")
    if config.max_body_mib < 1:
        raise ConfigError(
            f"max_body_mib is {config.max_body_mib}, but must be at least 1", param="max_body_mib"
        )
    for name in ("drain_timeout_s", "health_timeout_s"):
        value = getattr(config, name)
        if not 0.0 <= value < math.inf:
            raise ConfigError(f"{name} is {value}, but must be at least 0", param=name)


def _check_ranges(config: EngineConfig) -> None:
    for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "num_pages", "threads"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}, but must be at least 1", param=name)
    if config.kernels == "reference" and config.isa != "auto":
        raise ConfigError(
            f"isa is {config.isa}, but kernels is reference: only cpu has a choice", param="isa"
        )
    if (config.threads or 0) > MAX_THREADS:
        raise ConfigError(
            f"threads is {config.threads}, but must be at most {MAX_THREADS}", param="threads"
        )
    if config.max_queue < 0:
        raise ConfigError(
            f"max_queue is {config.max_queue}, but must be at least 0", param="max_queue"
        )
    if config.kv_cache_gib is not None and not 0.0 < config.kv_cache_gib < math.inf:
        raise ConfigError(
            f"kv_cache_gib is {config.kv_cache_gib}, but must be above 0", param="kv_cache_gib"
        )
    if not 0.0 < config.memory_fraction <= 1.0:
        raise ConfigError(
            f"memory_fraction is {config.memory_fraction}, but must be above 0 and at most 1",
            param="memory_fraction",
        )


def _max_model_len(config: EngineConfig, model: ModelConfig) -> int:
    if config.max_model_len is None:
        return model.max_position_embeddings
    if config.max_model_len > model.max_position_embeddings:
        raise ConfigError(
            f"max_model_len is {config.max_model_len}, but the model was trained for "
            f"{model.max_position_embeddings} positions",
            param="max_model_len",
        )
    return config.max_model_len


def _token_budget(config: EngineConfig, weight_bytes: int, threads: int) -> int:
    """Tokens of one step. A step is the grain of everything: nothing is admitted, aborted or
    answered inside it. Its time grows with tokens x weights / cores, so large models take small
    steps, down to where reading the weights, not computing, would set the pace.
    """
    if config.max_num_batched_tokens is None:
        budget = STEP_WORK * threads // max(weight_bytes, 1)
        # Every running sequence must be able to decode in one step, or decodes starve each other.
        return max(min(max(budget, MIN_BUDGET), MAX_BUDGET), config.max_num_seqs)
    if config.max_num_batched_tokens < config.max_num_seqs:
        raise ConfigError(
            f"max_num_batched_tokens is {config.max_num_batched_tokens}, but max_num_seqs is "
            f"{config.max_num_seqs}: the token budget must hold one token of every sequence",
            param="max_num_batched_tokens",
        )
    return config.max_num_batched_tokens


def _check_rotary(model: ModelConfig, max_model_len: int, room: int) -> None:
    """The rotary tables are float32 [max_model_len, head_dim]; a config may promise any length."""
    tables = 1 if model.rope_local is None else 2
    needed = tables * max_model_len * model.head_dim * 4
    if needed > room:
        raise ConfigError(
            f"positions up to {max_model_len} need {needed / GIB:.2f} GiB for rotary tables, but "
            f"{room / GIB:.2f} GiB are left; set a smaller max_model_len",
            param="max_model_len",
        )


def _num_pages(
    config: EngineConfig,
    layout: KVLayout,
    weight_bytes: int,
    machine: Machine,
    max_model_len: int,
    budget: int,
) -> int:
    free = machine.free_memory - weight_bytes
    param = "kv_cache_gib" if config.num_pages is None else "num_pages"
    if config.num_pages is not None:
        num_pages = config.num_pages
    elif config.kv_cache_gib is not None:
        num_pages = int(config.kv_cache_gib * GIB) // layout.page_bytes
    else:
        # More pages than all sequences at full length could hold is memory for nothing.
        most = config.max_num_seqs * layout.pages_needed(max_model_len, budget)
        num_pages = min(int(free * config.memory_fraction) // layout.page_bytes, most)
    size = f"{num_pages * layout.page_bytes / GIB:.2f} GiB"
    if num_pages < len(layout.groups):
        raise ConfigError(
            f"num_pages is {num_pages} ({size}), but the model's layers need at least "
            f"{len(layout.groups)} pages for any request; {machine.free_memory / GIB:.2f} GiB are "
            f"free and the weights take {weight_bytes / GIB:.2f} GiB of them",
            param=param,
        )
    if num_pages * layout.page_bytes > free:
        raise ConfigError(
            f"num_pages is {num_pages} ({size}), but beside the weights only {free / GIB:.2f} GiB "
            "are free",
            param=param,
        )
    return num_pages
