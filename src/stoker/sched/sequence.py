"""One request on its way through the engine: what is known, what is computed, when what happened.

A sequence is data. Who may run is decided in `planner`, what a step's result means in `scheduler`.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass, field

from stoker.core.plan import PoolSpec, SampleSpec, ScoreSpec
from stoker.core.request import Request, Timing
from stoker.memory.table import PageTable

Rank = tuple[int, int]
"""(priority, arrival number): the lower one runs first; no two sequences share one."""


@dataclass(slots=True, eq=False)
class Sequence:
    """
    tokens | prompt ................. | output ......... |
           |<------ num_computed ------->|<- num_pending ->|
    """

    request: Request
    table: PageTable
    arrival: int
    """Number of the request in order of arrival; kept over preemptions."""
    stop_ids: Collection[int]
    """Token ids that end the output."""
    max_tokens: int
    """Length of prompt + output at which the output ends."""
    tokens: array[int] = field(init=False)
    """All known tokens, prompt then output. int32, so that a runner need not convert a list as long
    as the context for every token that it draws under a penalty."""
    num_cached: int | None = None
    """Prompt tokens found in the prefix cache at first admission; None before it."""
    scheduled_at: float = 0.0
    first_token_at: float = 0.0
    num_read: int = 0
    """Leading positions whose rows gave what the request wants of its prompt: kept over
    preemptions, so that a recompute reads no row twice."""
    pooled: bytes = b""
    """Sum of the rows read so far, of a request for their mean."""
    is_aborted: bool = False

    def __post_init__(self) -> None:
        self.tokens = array("i", self.request.prompt_token_ids)

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def rank(self) -> Rank:
        return (self.request.priority, self.arrival)

    @property
    def num_computed(self) -> int:
        return self.table.num_computed

    @property
    def num_pending(self) -> int:
        """Known tokens that are not computed yet; 1 when decoding."""
        return len(self.tokens) - self.table.num_computed

    @property
    def num_prompt(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def wants_token(self) -> bool:
        return len(self.tokens) < self.max_tokens

    @property
    def num_to_read(self) -> int:
        """Leading positions whose rows are wanted, besides those that draw."""
        if self.request.params.prompt_logprobs is not None:
            return self.num_prompt - 1  # the last one's row says what comes after the prompt
        return self.num_prompt if self.request.pooling == "mean" else 0

    @property
    def most_cached(self) -> int | None:
        """Most tokens that a prefix hit may skip; None: any number."""
        return self.num_read if self.num_read < self.num_to_read else None

    def score_spec(self, end: int) -> ScoreSpec | None:
        """What a step that computes up to `end` is asked for the tokens of the prompt."""
        num_top = self.request.params.prompt_logprobs
        first, stop = max(self.num_computed, self.num_read), min(end, self.num_to_read)
        if num_top is None or first >= stop:
            return None
        return ScoreSpec(first - self.num_computed, self.tokens[first + 1 : stop + 1], num_top)

    def pool_spec(self, end: int) -> PoolSpec | None:
        """What a step that computes up to `end` adds to the request's embedding."""
        pooling, is_last = self.request.pooling, end == self.num_prompt
        if pooling is None or (pooling == "last" and not is_last):
            return None
        first = max(0, self.num_read - self.num_computed)
        return PoolSpec(pooling, first, self.pooled, self.num_prompt if is_last else None)

    @property
    def sample_spec(self) -> SampleSpec:
        """What to draw after the last known token."""
        params = self.request.params
        banned = self.stop_ids if self.num_output < params.min_tokens else ()
        return SampleSpec(
            params=params,
            choice=self.request.choice,
            history=self.tokens,
            num_prompt_tokens=self.num_prompt,
            banned_token_ids=tuple(sorted(banned)),
        )

    def timing(self, finished: float = 0.0) -> Timing:
        return Timing(
            arrival=self.request.arrival_time,
            scheduled=self.scheduled_at,
            first_token=self.first_token_at,
            finished=finished,
        )
