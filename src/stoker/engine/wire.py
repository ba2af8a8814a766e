"""The messages between a client (API process) and the engine process; nothing else crosses.

msgpack through msgspec; each message is a tagged type, so a decoder knows what it holds.
"""

from __future__ import annotations

import msgspec

from stoker.core.config import EngineConfig
from stoker.core.errors import ErrorInfo
from stoker.core.request import Request, TokenEvent


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The one line of JSON that the engine process reads from its stdin before anything else."""

    config: EngineConfig
    address: str
    """Where to connect the process's one socket (ZeroMQ PAIR)."""


class Submit(msgspec.Struct, tag="submit", frozen=True):
    request: Request


class Abort(msgspec.Struct, tag="abort", frozen=True):
    request_ids: list[str]


class Ping(msgspec.Struct, tag="ping", frozen=True):
    number: int


class ResetPrefixCache(msgspec.Struct, tag="reset_prefix_cache", frozen=True):
    """Forget all cached prefixes, then say Done."""

    number: int


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """End the engine process; requests still running are finished with `abort`."""


ToEngine = Submit | Abort | Ping | ResetPrefixCache | Stop


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine settled on; the API process validates requests against it."""

    vocab_size: int
    hidden_size: int
    """Numbers of an embedding."""
    max_model_len: int
    num_pages: int
    page_size: int
    max_request_tokens: int
    """Longest prompt + output that the KV pool could ever hold."""
    max_num_seqs: int
    max_choices: int
    """Most choices, running and waiting, that may be in flight."""
    max_num_batched_tokens: int
    weight_bytes: int
    kernels: str


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's numbers after a step. Counters only grow while the process lives."""

    num_running: int = 0
    num_waiting: int = 0
    pages_free: int = 0
    pages_cached: int = 0
    pages_held: int = 0
    pages_leased: int = 0
    num_preemptions: int = 0
    prefix_queries: int = 0
    """Prompt tokens looked up in the prefix index."""
    prefix_hits: int = 0
    """Prompt tokens found there."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    num_steps: int = 0
    step_tokens: int = 0
    """Tokens computed in all steps."""
    steps_by_size: list[int] = []
    """Entry i: steps of at most 2**i tokens, and more than 2**(i - 1)."""


class Ready(msgspec.Struct, tag="ready", frozen=True):
    info: EngineInfo


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """Loading goes on: `done` of `total` bytes."""

    done: int
    total: int


class Events(msgspec.Struct, tag="events", frozen=True):
    events: list[TokenEvent]
    stats: Stats


class Pong(msgspec.Struct, tag="pong", frozen=True):
    number: int
    stats: Stats


class Done(msgspec.Struct, tag="done", frozen=True):
    """The call of that number was carried out."""

    number: int


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The engine cannot start or go on; the process ends after it."""

    error: ErrorInfo


FromEngine = Ready | Progress | Events | Pong | Done | Failed

encode = msgspec.msgpack.Encoder().encode
decode_to_engine = msgspec.msgpack.Decoder(ToEngine).decode
decode_from_engine = msgspec.msgpack.Decoder(FromEngine).decode
