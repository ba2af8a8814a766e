"""A request and everything that comes back for it.

These types cross the process boundary as msgpack and are the vocabulary of `api`, `engine` and
`sched`. They hold token ids and numbers: `api` turns text into them, tensors never appear.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from stoker.core.errors import ErrorInfo

Pooling = Literal["last", "mean"]
"""How the hidden states of a text become one vector: the last token's, or the mean of all."""


class FinishReason(StrEnum):
    STOP = "stop"  # end-of-sequence, a stop token id or a stop string
    LENGTH = "length"  # max_tokens or the model's context was reached
    ABORT = "abort"  # the client went away or asked for it
    ERROR = "error"  # this request failed; the event's `error` says why


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn and when a choice ends. Validate with `core.validate.check_sampling`."""

    max_tokens: int | None = None
    """Most tokens to generate; None: the rest of the context; 0: only compute the prompt."""
    min_tokens: int = 0
    """No stop condition of any kind applies before this many tokens were generated."""
    temperature: float = 1.0
    """0 is greedy (ties to the lowest token id)."""
    top_k: int = 0
    """Keep the k most probable tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens whose mass reaches p."""
    min_p: float = 0.0
    """Drop tokens less probable than min_p times the most probable one."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens seen in prompt or output."""
    presence_penalty: float = 0.0
    """Subtracted once from the logit of every token seen in the output."""
    frequency_penalty: float = 0.0
    """Subtracted from the logit of a token once for each time it was seen in the output."""
    logit_bias: dict[int, float] | None = None
    """Token id → number added to its logit."""
    seed: int = 0
    """64-bit key of the randomness; whoever builds the params draws one if the client gave none."""
    n: int = 1
    """Number of choices."""
    stop: tuple[str, ...] = ()
    """Texts that end the choice; matched on text by the API process."""
    include_stop_str_in_output: bool = False
    """Keep the stop string in the text."""
    stop_token_ids: tuple[int, ...] = ()
    """Token ids that end the choice, besides the model's end-of-sequence ids."""
    ignore_eos: bool = False
    """Do not stop at the model's end-of-sequence ids."""
    allowed_token_ids: tuple[int, ...] = ()
    """Draw only from these; empty: from all."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Sequences of tokens that the output may not hold: the last token of one cannot be drawn where
    the output ends with those before it."""
    skip_special_tokens: bool = True
    """Leave special tokens out of the text."""
    logprobs: int | None = None
    """None: no logprobs; k: the sampled token's and the k most probable ones', natural log of the
    model's own distribution (before bias, penalties and temperature)."""
    prompt_logprobs: int | None = None
    """The same for every token of the prompt but the first. Such a request does not read the prefix
    cache, for the rows that it wants are those that a hit would skip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One choice of one client request, as the engine sees it."""

    id: str
    """Unique in the engine; never the client's own id."""
    prompt_token_ids: list[int]
    params: SamplingParams
    choice: int = 0
    """Which of `params.n` choices this is; part of the key of the randomness."""
    priority: int = 0
    """Lower runs first; equal priorities run in order of arrival."""
    cache_salt: str | None = None
    """Prefix pages are shared only between requests of the same salt."""
    arrival_time: float = 0.0
    """Seconds since the epoch, for metrics only."""
    pooling: Pooling | None = None
    """Wants an embedding of the prompt; with `max_tokens` 0."""


MIN_LOGPROB = -9999.0
"""Stands for log(0): JSON has no infinity, and OpenAI's servers write this number."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities at one position. `top_*` are in falling order."""

    token_id: int
    logprob: float
    top_ids: tuple[int, ...] = ()
    top_logprobs: tuple[float, ...] = ()
    rank: int | None = None
    """Of a prompt's token among all by falling probability, 1 the first; None for a drawn one."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a request reached each station, seconds since the epoch; 0.0 = not yet."""

    arrival: float = 0.0
    scheduled: float = 0.0
    first_token: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEvent:
    """News about one request after one step, from the engine to its client."""

    request_id: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] | None = None
    """One entry per token id where the request asked for logprobs."""
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    """Of the prompt's next tokens, the first token of all left out; they come before any token."""
    embedding: bytes = b""
    """Little-endian float32, with the finish reason of a request with `pooling`."""
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    """The token id that ended the choice, where one did; it is the last of `token_ids`."""
    num_cached_tokens: int = 0
    """Prompt tokens whose KV came from the prefix cache at first admission."""
    error: ErrorInfo | None = None
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A piece of one choice with its text: what `engine.client` yields and `api.assemble` folds.

    The concatenation of the pieces of a choice is the choice; the last piece has a finish reason.
    """

    choice: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] | None = None
    """Of all of the prompt's tokens but the first; with the first piece, where asked for."""
    embedding: tuple[float, ...] | None = None
    """With the last piece of a request with `pooling`."""
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    """The stop string or stop token id that ended the choice; None for end-of-sequence."""
    usage: Usage = Usage()
    """Of this choice so far."""
    timing: Timing = Timing()
