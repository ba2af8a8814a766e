"""A batch of prompts through an engine core in this process, to the end. Torch-free; for `LLM`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from stoker.core.errors import ReportedError
from stoker.core.request import Output, Pooling, Request, SamplingParams, Usage
from stoker.engine.admission import expand
from stoker.engine.core import EngineCore
from stoker.engine.outputs import OutputProcessor, merge
from stoker.engine.wire import EngineInfo
from stoker.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one prompt."""

    prompt_token_ids: list[int]
    choices: list[Output]
    """`params.n` of them, each whole."""

    @property
    def text(self) -> str:
        """The first choice's text."""
        return self.choices[0].text

    @property
    def usage(self) -> Usage:
        """The prompt counts once, the tokens of all choices add up."""
        return Usage(
            prompt_tokens=len(self.prompt_token_ids),
            completion_tokens=sum(choice.usage.completion_tokens for choice in self.choices),
            cached_tokens=self.choices[0].usage.cached_tokens,
        )


def run_batch(
    core: EngineCore,
    info: EngineInfo,
    tokenizer: Tokenizer,
    prompts: Sequence[tuple[list[int], SamplingParams]],
    on_output: Callable[[Output], None],
    pooling: Pooling | None = None,
) -> list[Completion]:
    """One Completion a prompt, in order; `on_output` sees every piece as it comes. `pooling`: of
    prompts whose params have `max_tokens` 0, for their embeddings.

    Raises:
        StokerError: a prompt was refused or failed. Like any other exception (Ctrl-C), this aborts
            what still runs, and the core can be used again.
    """
    batch = [expand(token_ids, params, info, pooling=pooling) for token_ids, params in prompts]
    choices = {
        request.id: _Choice(tokenizer, request) for requests in batch for request in requests
    }
    for requests in batch:
        for request in requests:
            core.submit(request)
    try:
        _run(core, choices, on_output)
    finally:
        core.abort(name for name, choice in choices.items() if not choice.processor.finished)
    return [
        Completion(token_ids, [choices[request.id].whole for request in requests])
        for (token_ids, _), requests in zip(prompts, batch, strict=True)
    ]


class _Choice:
    """A choice and the pieces it has so far."""

    def __init__(self, tokenizer: Tokenizer, request: Request) -> None:
        self.processor = OutputProcessor(
            tokenizer, request.prompt_token_ids, request.params, request.choice
        )
        self.pieces: list[Output] = []

    @property
    def whole(self) -> Output:
        return reduce(merge, self.pieces)


def _run(
    core: EngineCore, choices: dict[str, _Choice], on_output: Callable[[Output], None]
) -> None:
    while core.has_work:
        for event in core.step():
            if event.error is not None:
                raise ReportedError(event.error)
            choice = choices[event.request_id]
            output = choice.processor.push(event)
            if output is None:
                continue
            choice.pieces.append(output)
            on_output(output)
            if output.finish_reason is not None and event.finish_reason is None:
                core.abort([event.request_id])  # by a stop string, which the core does not know
