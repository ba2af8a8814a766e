"""Text and messages → token ids, off the event loop where it takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from stoker.api.logprobs import Spelling
from stoker.api.schema import Message, SamplingBody, TemplateVariables
from stoker.api.state import AppState
from stoker.core.errors import InvalidRequest

T = TypeVar("T")

INLINE_CHARS = 4096
"""Up to here tokenizing takes less time (about a millisecond) than a thread costs in latency."""


async def run_off_loop(size: int, work: Callable[[], T]) -> T:
    """`work()`, in a thread when `size` (characters or tokens) is large."""
    if size <= INLINE_CHARS:
        return work()
    return await asyncio.to_thread(work)


async def encode_texts(
    state: AppState, prompts: list[str | list[int]], add_special_tokens: bool
) -> list[list[int]]:
    """Token ids of every prompt; prompts that are token ids already stay as they are."""

    def encode() -> list[list[int]]:
        return [
            state.tokenizer.encode(prompt, add_special_tokens)
            if isinstance(prompt, str)
            else prompt
            for prompt in prompts
        ]

    return await run_off_loop(sum(map(len, prompts)), encode)


def truncated(
    state: AppState,
    most: int | None,
    max_tokens: int | None,
    token_ids: list[int],
    *,
    is_text: bool = False,
) -> list[int]:
    """The end of a prompt that is longer than `truncate_prompt_tokens`, `most`, allows.

    A text keeps the BOS that the tokenizer put before it. -1 keeps what the context has room for
    beside `max_tokens`, or beside one token where the answer's length is open.
    """
    if most is None:
        return token_ids
    if most == 0:
        raise InvalidRequest(
            "truncate_prompt_tokens is 0, but must be -1 or at least 1",
            param="truncate_prompt_tokens",
        )
    if most == -1:
        room = 1 if max_tokens is None else max_tokens
        most = max(1, state.engine.info.max_model_len - room)
    if len(token_ids) <= most:
        return token_ids
    if is_text and most > 1 and token_ids[0] == state.tokenizer.bos_id:
        return [token_ids[0], *token_ids[1 - most :]]
    return token_ids[-most:]


def spelling(state: AppState, body: SamplingBody) -> Spelling:
    return Spelling(state.tokenizer, as_ids=bool(body.return_tokens_as_token_ids))


async def encode_chat(
    state: AppState,
    messages: list[Message],
    add_generation_prompt: bool | None,
    variables: TemplateVariables | None,
) -> list[int]:
    """The token ids of the rendered conversation.

    Raises:
        InvalidRequest: the model has no template, or the template refuses the messages.
    """
    template = state.template
    if template is None:
        raise InvalidRequest(
            "This model has no chat template; use /v1/completions or serve it with a template",
            param="messages",
            code="no_chat_template",
        )
    turns = [_turn(index, message) for index, message in enumerate(messages)]

    # What a template makes of variables, and of parts, may be of any size.
    is_plain = not variables and all(isinstance(turn["content"], str) for turn in turns)
    size = sum(len(turn["content"]) for turn in turns) if is_plain else INLINE_CHARS + 1
    return await run_off_loop(
        size,
        lambda: template.render_to_ids(
            turns,
            add_generation_prompt=add_generation_prompt is not False,
            variables=variables or {},
        ),
    )


def _turn(index: int, message: Message) -> dict[str, Any]:
    """A message as templates know it: content is text, and developer is system's newer name."""
    content = message.content
    if content is None:
        if message.role != "assistant":
            param = f"messages[{index}].content"
            raise InvalidRequest(
                f"{param} is null, but a {message.role} message needs text", param=param
            )
        content = ""
    role = "system" if message.role == "developer" else message.role
    turn: dict[str, Any] = {"role": role, "content": content}
    if message.name is not None:
        turn["name"] = message.name
    return turn
