"""Chat messages in the shape that a template can read.

Clients write content as a string or as a list of parts, and the arguments of a tool call as a JSON
string; templates were written for one of these shapes and rarely say which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from stoker.core.errors import InvalidRequest

Message = Mapping[str, Any]


class ContentShape(Enum):
    """What a template does with `content`."""

    TEXT = "text"
    """It wants a string."""
    EITHER = "either"
    """It takes a string or a list of parts."""
    PARTS = "parts"
    """It wants a list of parts."""


def prepare(
    messages: Sequence[Message], shape: ContentShape, *, decode_arguments: bool
) -> list[dict[str, Any]]:
    """Copies of `messages` with content in that shape and without keys that say nothing.

    Raises:
        InvalidRequest: a part of a content list is not text.
    """
    return [_prepare(message, shape, decode_arguments) for message in messages]


def _prepare(message: Message, shape: ContentShape, decode_arguments: bool) -> dict[str, Any]:
    # Templates ask whether a key is there, so an empty list of calls must not be.
    prepared = {key: value for key, value in message.items() if value is not None and value != []}
    prepared["content"] = _content(message.get("content"), shape)
    if "tool_calls" in prepared and decode_arguments:
        prepared["tool_calls"] = [_with_arguments(call) for call in prepared["tool_calls"]]
    return prepared


def _content(content: Any, shape: ContentShape) -> Any:
    if content is None:
        content = ""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if shape is ContentShape.PARTS else content
    if not isinstance(content, list | tuple):
        raise InvalidRequest("content must be a string or a list of parts", param="messages")
    texts = [_part_text(part) for part in content]
    return "\n".join(texts) if shape is ContentShape.TEXT else list(content)


def _part_text(part: Any) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind != "text" or not isinstance(part.get("text"), str):
        raise InvalidRequest(
            f"a content part has type {kind!r}, but this model reads only parts of type 'text'",
            param="messages",
        )
    text: str = part["text"]
    return text


def _with_arguments(call: Any) -> Any:
    """The call with its arguments as an object, where they are the JSON text of one.

    Anything else stays as it is: the text came from a model once and need not be valid.
    """
    function = call.get("function") if isinstance(call, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(arguments, str):
        return call
    try:
        decoded = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return call
    if not isinstance(decoded, dict):
        return call
    return {**call, "function": {**function, "arguments": decoded}}
