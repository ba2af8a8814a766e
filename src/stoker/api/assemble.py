"""Outputs → chunks → body: the one place that shapes an answer.

A stream is a list of chunks, and the body without streaming is the fold of that list. Both
endpoints share everything but the spelling of a choice, which a `Format` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.api.logprobs import (
    Spelling,
    TextOffsets,
    chat_logprobs,
    completion_logprobs,
    echoed_logprobs,
    prompt_logprobs,
)
from stoker.core.errors import Draining, RequestFailed
from stoker.core.request import FinishReason, Output, TokenLogprobs, Usage

Json = dict[str, Any]

PROMPT_FACTS = ("prompt_token_ids", "prompt_logprobs")


@dataclass(frozen=True, slots=True)
class Head:
    """What every chunk of an answer repeats."""

    id: str
    created: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a choice may say of its prompt."""

    token_ids: list[int]
    echo: str | None = None
    """The text that the choice's own begins with."""
    echo_logprobs: int | None = None
    """Alternatives to show for each token of the echo; None: no logprobs of it."""
    logprobs: int | None = None
    """The same for `prompt_logprobs`, which stands for itself."""


class Format(Protocol):
    """How one endpoint spells the pieces of a choice."""

    spell: Spelling
    chunk_object: str
    body_object: str
    prompt_facts_in_choice: bool
    """Where vLLM puts `prompt_token_ids` and `prompt_logprobs`: into every choice, or beside the
    choices."""

    def opening(self, index: int, prompt: Prompt, first: Output) -> Json | None:
        """The choice piece that comes before all others, if the format has one. `first` is the
        choice's first output."""
        ...

    def piece(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json: ...

    def logprobs(self, index: int, entries: Sequence[TokenLogprobs]) -> Json: ...

    def fold(self, pieces: Sequence[Json]) -> Json:
        """The whole choice, from all its pieces in order."""
        ...


class ChatFormat:
    """`chat.completion`: a choice is a message, a piece is a delta."""

    chunk_object = "chat.completion.chunk"
    body_object = "chat.completion"
    prompt_facts_in_choice = False

    def __init__(self, spell: Spelling) -> None:
        self.spell = spell

    def opening(self, index: int, prompt: Prompt, first: Output) -> Json:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def piece(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json:
        delta = {"content": text} if text else {}
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    def logprobs(self, index: int, entries: Sequence[TokenLogprobs]) -> Json:
        return {**chat_logprobs(entries, self.spell), "refusal": None}

    def fold(self, pieces: Sequence[Json]) -> Json:
        content = "".join(piece["delta"].get("content", "") for piece in pieces)
        message = {"role": "assistant", "content": content, "refusal": None}
        return {"index": pieces[0]["index"], "message": message}


class CompletionFormat:
    """`text_completion`: a choice and its pieces are plain text."""

    chunk_object = "text_completion"
    body_object = "text_completion"
    prompt_facts_in_choice = True

    def __init__(self, spell: Spelling, skip_special_tokens: bool) -> None:
        self.spell = spell
        self._skip_special_tokens = skip_special_tokens
        self._offsets: dict[int, TextOffsets] = {}

    def opening(self, index: int, prompt: Prompt, first: Output) -> Json | None:
        before = prompt.token_ids if prompt.echo is None else []
        offsets = TextOffsets(self.spell.tokenizer, before, self._skip_special_tokens)
        self._offsets[index] = offsets
        if prompt.echo is None:
            return None
        logprobs = None
        if prompt.echo_logprobs is not None:
            entries, num_top = first.prompt_logprobs or (), prompt.echo_logprobs
            logprobs = echoed_logprobs(prompt.token_ids[0], entries, num_top, self.spell, offsets)
        return self.piece(index, prompt.echo, logprobs, None)

    def piece(self, index: int, text: str, logprobs: Json | None, finish: str | None) -> Json:
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def logprobs(self, index: int, entries: Sequence[TokenLogprobs]) -> Json:
        return completion_logprobs(entries, self.spell, self._offsets[index])

    def fold(self, pieces: Sequence[Json]) -> Json:
        text = "".join(piece["text"] for piece in pieces)
        return {"index": pieces[0]["index"], "text": text}


class _Choice:
    """What is known of one choice so far."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.finished = False


class Assembler:
    """Chunks of one answer. Choice c of prompt p has index p * n + c."""

    def __init__(
        self,
        wire_format: Format,
        head: Head,
        prompts: Sequence[Prompt],
        n: int,
        *,
        include_usage: bool,
        return_token_ids: bool,
    ) -> None:
        self._format = wire_format
        self._head = head
        self._prompts = prompts
        self._n = n
        self._include_usage = include_usage
        self._return_token_ids = return_token_ids
        self._choices: dict[int, _Choice] = {}

    @property
    def has_begun(self) -> bool:
        """Whether any output came."""
        return bool(self._choices)

    @property
    def unfinished(self) -> int:
        """Choices that have not yet got their finish reason."""
        finished = sum(choice.finished for choice in self._choices.values())
        return len(self._prompts) * self._n - finished

    def push(self, prompt: int, output: Output) -> list[Json]:
        """The chunks that one output adds.

        Raises:
            Draining, RequestFailed: the engine ended the choice unasked.
        """
        if output.finish_reason is FinishReason.ABORT:
            raise Draining("The server is stopping and ended this request")
        if output.finish_reason is FinishReason.ERROR:
            raise RequestFailed("The engine failed to finish this request")
        index = prompt * self._n + output.choice
        chunks = []
        if index not in self._choices:
            chunks += self._open(index, self._prompts[prompt], output)
        choice = self._choices[index]
        choice.usage = output.usage
        choice.finished = output.finish_reason is not None
        logprobs = None
        if output.logprobs:
            logprobs = self._format.logprobs(index, output.logprobs)
        if not (output.text or choice.finished or logprobs or self._return_token_ids):
            return chunks
        finish = output.finish_reason.value if output.finish_reason else None
        piece = self._format.piece(index, output.text, logprobs, finish)
        if choice.finished:
            piece["stop_reason"] = output.stop_reason
        if self._return_token_ids:
            piece["token_ids"] = list(output.token_ids)
        return [*chunks, self._chunk([piece])]

    def finish(self) -> list[Json]:
        """The chunks after the last output.

        Raises:
            RequestFailed: a choice never ended; a stream must not stop as if it had.
        """
        if self.unfinished:
            raise RequestFailed(f"{self.unfinished} choices ended without a finish reason")
        if not self._include_usage:
            return []
        return [{**self._chunk([]), "usage": usage_json(self._usage())}]

    def _open(self, index: int, prompt: Prompt, first: Output) -> list[Json]:
        self._choices[index] = _Choice()
        opening = self._format.opening(index, prompt, first)
        facts: Json = {}
        if self._return_token_ids:
            facts["prompt_token_ids"] = prompt.token_ids
        if prompt.logprobs is not None:
            entries, num_top = first.prompt_logprobs or (), prompt.logprobs
            tokenizer = self._format.spell.tokenizer
            facts["prompt_logprobs"] = prompt_logprobs(entries, num_top, tokenizer)
        if opening is None and not facts:
            return []
        piece = opening or self._format.piece(index, "", None, None)
        chunk = self._chunk([piece])
        (piece if self._format.prompt_facts_in_choice else chunk).update(facts)
        return [chunk]

    def _chunk(self, choices: list[Json]) -> Json:
        chunk: Json = {
            "id": self._head.id,
            "object": self._format.chunk_object,
            "created": self._head.created,
            "model": self._head.model,
            "choices": choices,
        }
        if self._include_usage:
            chunk["usage"] = None
        return chunk

    def _usage(self) -> Usage:
        """A prompt counts once, whatever n; its cached tokens are those of its choice 0."""
        first = [self._choices[prompt * self._n].usage for prompt in range(len(self._prompts))]
        return Usage(
            prompt_tokens=sum(len(prompt.token_ids) for prompt in self._prompts),
            completion_tokens=sum(c.usage.completion_tokens for c in self._choices.values()),
            cached_tokens=sum(usage.cached_tokens for usage in first),
        )


def fold(wire_format: Format, chunks: Iterable[Json]) -> Json:
    """The body that a stream of chunks adds up to; the stream must end with a usage chunk."""
    pieces: dict[int, list[Json]] = {}
    last: Json = {}
    beside: Json = {}
    for last in chunks:
        beside |= {name: last[name] for name in PROMPT_FACTS if name in last}
        for piece in last["choices"]:
            pieces.setdefault(piece["index"], []).append(piece)
    body = {key: last[key] for key in ("id", "created", "model", "usage")}
    choices = [_fold_choice(wire_format, pieces[index]) for index in sorted(pieces)]
    return {**body, "object": wire_format.body_object, "choices": choices, **beside}


def usage_json(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _fold_choice(wire_format: Format, pieces: list[Json]) -> Json:
    choice = {
        **wire_format.fold(pieces),
        "logprobs": _fold_logprobs([p["logprobs"] for p in pieces if p["logprobs"] is not None]),
        "finish_reason": pieces[-1]["finish_reason"],
        "stop_reason": pieces[-1]["stop_reason"],
    }
    choice |= {name: pieces[0][name] for name in PROMPT_FACTS if name in pieces[0]}
    if "token_ids" in pieces[-1]:
        choice["token_ids"] = [i for piece in pieces for i in piece.get("token_ids", ())]
    return choice


def _fold_logprobs(parts: list[Json]) -> Json | None:
    """Both formats hold lists by name; the lists of the parts follow each other."""
    if not parts:
        return None
    return {
        key: None if values is None else [item for part in parts for item in part[key]]
        for key, values in parts[0].items()
    }
