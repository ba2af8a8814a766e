"""StepPlan and StepResult: the one seam between deciding (`sched`) and computing (`runner`).

A plan is complete: given the KV pages it names, the runner needs nothing it remembers from earlier
steps. Preemption, replay and another machine are therefore the same case as the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.core.request import Pooling, SamplingParams, TokenLogprobs


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """What to draw after the last token of a `SeqStep`; set by the scheduler."""

    params: SamplingParams
    choice: int
    history: Sequence[int]
    """All known tokens, prompt then output; its length is the position of the token to draw, which
    with (seed, choice) keys the randomness. Read only, and keep no view: it grows after the
    step."""
    num_prompt_tokens: int
    """Where the output starts in `history`."""
    banned_token_ids: tuple[int, ...] = ()
    """Stop ids that `min_tokens` still forbids."""


@dataclass(frozen=True, slots=True)
class ScoreSpec:
    """Log-probabilities wanted of known tokens: row `first + i` of the sequence's part of the step
    is asked for the token `targets[i]`, which is the one that follows it."""

    first: int
    targets: Sequence[int]
    num_top: int
    """How many of the most probable tokens to name beside each."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """One vector wanted of a prompt's hidden states, after the model's last norm.

    `last` takes the step's last row. `mean` adds rows up from row `first` on, one after the other,
    so that the sum does not depend on how the prompt was cut; what is summed so far travels with
    the plan, because the runner remembers nothing.
    """

    pooling: Pooling
    first: int
    partial: bytes
    """Sum of the rows before, little-endian float64; empty where there are none."""
    total: int | None
    """Rows of the whole sum, in the step that ends it."""


@dataclass(frozen=True, slots=True)
class SeqStep:
    """One sequence's part of a step: compute tokens [start, start + len(token_ids))."""

    request_id: str
    token_ids: Sequence[int]
    start: int
    """Tokens whose KV is already in the pages."""
    page_tables: tuple[Sequence[int], ...]
    """Per KV group: physical page of logical page i; covers start + len(token_ids) tokens. A page
    before a windowed group's window is -1."""
    sample: SampleSpec | None
    """None while the prompt is not yet complete, and where no token is wanted."""
    score: ScoreSpec | None = None
    pool: PoolSpec | None = None


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One batch. Sequences may be at any stage: prefill chunks and decodes mix freely."""

    step_id: int
    seqs: tuple[SeqStep, ...]

    @property
    def num_tokens(self) -> int:
        return sum(len(seq.token_ids) for seq in self.seqs)


@dataclass(frozen=True, slots=True)
class SeqResult:
    """What one sequence got from a step; empty `token_ids` where nothing was to be drawn."""

    request_id: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each of the step's `ScoreSpec.targets`."""
    pooled: bytes = b""
    """What the step's `PoolSpec` asks for: the next `partial`, or in the step that ends it the
    vector, little-endian float32."""
    error: str | None = None
    """Set when this sequence alone failed (for example non-finite logits)."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One `SeqResult` per `StepPlan.seqs`, in the same order."""

    step_id: int
    seqs: tuple[SeqResult, ...]


class Runner(Protocol):
    """Turns plans into tokens on one device group."""

    def execute(self, plan: StepPlan) -> StepResult: ...
