"""An engine without a model: scripted runner, byte tokenizer, and its own process entry.

`python -c … main()` runs the product's `run_engine` with these parts, so everything round the
runner (process, sockets, scheduler, pages, client) is the real thing.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.core.config import EngineConfig, Limits
from stoker.core.errors import CheckpointError
from stoker.core.model import KVGroup, KVLayout
from stoker.core.plan import SampleSpec, StepPlan, StepResult
from stoker.engine.admission import engine_info
from stoker.engine.core import EngineCore
from stoker.engine.loop import Report, run_engine
from stoker.engine.wire import EngineInfo
from stoker.memory.manager import MemoryManager
from stoker.sched.scheduler import Scheduler
from tests.support.scripted import ScriptedRunner, by_hash

ROOT = Path(__file__).parents[2]

EOS = 256
VOCAB = 257
RAISE = 1
"""A prompt that starts with this byte makes its step raise."""
DIE = 2
"""A prompt that starts with this byte kills the engine process from within."""

LAYOUT = KVLayout(
    groups=(KVGroup((0,), None),), layers_per_page=1, num_kv_heads=1, head_dim=1, dtype="f32"
)


class ByteTokenizer:
    """One token a byte, and one special token that ends an answer. Any text goes there and back."""

    vocab_size = VOCAB
    bos_id = None
    eos_id = EOS
    special_ids = frozenset({EOS})
    chat_template = None
    strips_first_space = False

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Iterable[int], skip_special_tokens: bool) -> str:
        return b"".join(self.visible_bytes(i, skip_special_tokens) for i in ids).decode(
            errors="replace"
        )

    def visible_bytes(self, token_id: int, skip_special_tokens: bool) -> bytes:
        if token_id == EOS and skip_special_tokens:
            return b""
        return self.token_bytes(token_id)

    def token_bytes(self, token_id: int) -> bytes:
        return b"<end>" if token_id == EOS else bytes([token_id])

    def id_to_piece(self, token_id: int) -> str:
        return self.token_bytes(token_id).decode("latin-1")


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What a scripted engine is like."""

    answer: str | None = None
    """Every answer is this text and an end-of-sequence; None: letters drawn from the history."""
    delay_s: float = 0.0
    """Sleep per step."""
    load_s: float = 0.0
    """Sleep before it is ready."""
    num_pages: int = 256
    max_model_len: int = 512
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 64
    audit: bool = False
    """Check the pages behind every computed token; memory then grows with every step."""
    cannot_start: str | None = None
    """Fail the start with this message."""


def scripted_command(scenario: Scenario) -> tuple[str, ...]:
    """The command of an engine process that plays `scenario`."""
    paths = [str(ROOT / "src"), str(ROOT)]
    code = f"import sys; sys.path[:0] = {paths!r}; from tests.support.engine import main; main()"
    return (sys.executable, "-c", code, msgspec.json.encode(scenario).decode())


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    scenario = msgspec.json.decode(sys.argv[1], type=Scenario)

    def build(config: EngineConfig, report: Report) -> tuple[EngineCore, EngineInfo]:
        if scenario.cannot_start is not None:
            raise CheckpointError(scenario.cannot_start)
        report(1, 2)
        time.sleep(scenario.load_s)
        report(2, 2)
        return build_scripted(scenario, config)

    sys.exit(run_engine(build))


def build_scripted(
    scenario: Scenario, config: EngineConfig | None = None
) -> tuple[EngineCore, EngineInfo]:
    """The core of a scripted engine, in this process."""
    config = config or EngineConfig()
    limits = Limits(
        kv=LAYOUT,
        num_pages=scenario.num_pages,
        vocab_size=VOCAB,
        max_model_len=scenario.max_model_len,
        max_num_seqs=scenario.max_num_seqs,
        max_num_batched_tokens=scenario.max_num_batched_tokens,
        threads=1,
    )
    memory = MemoryManager(LAYOUT, scenario.num_pages, config.prefix_caching, "scripted")
    scheduler = Scheduler(limits, memory, frozenset({EOS}), time.time)
    core = EngineCore(scheduler, FaultyRunner(scenario))
    return core, engine_info(limits, config, weight_bytes=0, hidden_size=2)


@dataclass
class FaultyRunner:
    """A ScriptedRunner that also breaks where a prompt asks for it."""

    scenario: Scenario

    def __post_init__(self) -> None:
        layout = LAYOUT if self.scenario.audit else None
        self._runner = ScriptedRunner(self._draw, layout, delay_s=self.scenario.delay_s)
        self._letter = by_hash(26)

    def execute(self, plan: StepPlan) -> StepResult:
        first = {seq.token_ids[0] for seq in plan.seqs if seq.start == 0}
        if DIE in first:
            os.kill(os.getpid(), signal.SIGKILL)
        if RAISE in first:
            raise RuntimeError("the script says so")
        result = self._runner.execute(plan)
        # It remembers every plan, for tests that look at them; none does in another process.
        self._runner.plans.clear()
        self._runner.computed.clear()
        return result

    def _draw(self, request_id: str, spec: SampleSpec) -> int:
        if self.scenario.answer is None:
            return ord("a") + self._letter(request_id, spec)
        answer = self.scenario.answer.encode()
        position = len(spec.history) - spec.num_prompt_tokens
        return answer[position] if position < len(answer) else EOS
