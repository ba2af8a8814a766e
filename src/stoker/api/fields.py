"""Fields of requests that JSON spells in several ways, each with one parser and one message.

The parsers stop at the first fault: a body of megabytes of wrong items costs one message, not one a
item, and the message says what would be right.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from stoker.api.errors import unsupported
from stoker.core.errors import InvalidRequest
from stoker.core.validate import MAX_BAD_WORDS

TOKEN_ID_SCHEMA = {"type": "integer", "minimum": 0}
_TOKEN_IDS_SCHEMA = {"type": "array", "items": TOKEN_ID_SCHEMA, "minItems": 1}
MAX_PROMPTS = 1024


def is_int(value: Any) -> bool:
    """Whether JSON held a whole number; Python counts true and false too."""
    return isinstance(value, int) and not isinstance(value, bool)


def _prompts(name: str) -> PlainValidator:
    """A string, token ids, or a list of either → the list of prompts; `name` is the field's."""

    def parse(value: Any) -> list[str | list[int]]:
        if isinstance(value, str):
            return [_text(value, name)]
        message = (
            f"{name} must be a string, a list of token ids, or a list of strings or of such lists"
        )
        if not isinstance(value, list):
            raise InvalidRequest(message, param=name)
        if not value:
            raise InvalidRequest(
                f"{name} is an empty list, but needs at least one item", param=name
            )
        if all(map(is_int, value)):
            return [value]
        if len(value) > MAX_PROMPTS:
            raise InvalidRequest(
                f"{name} has {len(value)} prompts, but at most {MAX_PROMPTS} are allowed",
                param=name,
            )
        if all(isinstance(item, str) for item in value):
            return [_text(item, name) for item in value]
        if all(isinstance(item, list) and item and all(map(is_int, item)) for item in value):
            return list(value)
        raise InvalidRequest(message, param=name)

    return PlainValidator(parse)


def parse_logit_bias(value: Any) -> dict[int, float] | None:
    """`{"token id": bias}`: JSON keys are strings, token ids are numbers."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidRequest("logit_bias must be an object: token id → bias", param="logit_bias")
    bias: dict[int, float] = {}
    for key, number in value.items():
        if not (key.isascii() and key.isdigit() and len(key) < 20):
            raise InvalidRequest(
                f"logit_bias has the key {key[:40]!r}, but keys must be token ids",
                param="logit_bias",
            )
        if not (is_int(number) or isinstance(number, float)) or abs(number) > 1e9:
            raise InvalidRequest(
                f"logit_bias[{key}] must be a number between -100 and 100", param="logit_bias"
            )
        bias[int(key)] = float(number)
    return bias


def parse_stop(value: Any) -> tuple[str, ...] | None:
    """A string or a list of strings."""
    if value is None:
        return None
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise InvalidRequest("stop must be a string or a list of strings", param="stop")
    return tuple(_text(item, "stop") for item in items)


def parse_content(value: Any) -> str | list[dict[str, str]] | None:
    """Text, or text in parts: `[{"type": "text", "text": "…"}]`. The template joins the parts."""
    if isinstance(value, str):
        return parse_text(value)
    if not isinstance(value, list | None):
        raise PydanticCustomError("content", "must be a string or a list of text parts")
    for part in value or ():
        _check_part(part)
    return value


def _check_part(part: Any) -> None:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise PydanticCustomError("content", "has a part that is not an object with a type")
    if part["type"] != "text":
        kind = part["type"][:40]
        raise unsupported("messages", f"a content part of type {kind!r}")
    if not isinstance(part.get("text"), str) or len(part) != 2:
        raise PydanticCustomError("content", "has a text part that is not just a type and a text")
    parse_text(part["text"])


def parse_bad_words(value: Any) -> tuple[str, ...] | None:
    """A list of strings, none of them blank."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidRequest("bad_words must be a list of strings", param="bad_words")
    if len(value) > MAX_BAD_WORDS:
        raise InvalidRequest(
            f"bad_words has {len(value)} words, but at most {MAX_BAD_WORDS} are allowed",
            param="bad_words",
        )
    if not all(item.strip() for item in value):
        raise InvalidRequest("bad_words must not contain a blank word", param="bad_words")
    return tuple(_text(item, "bad_words") for item in value)


def _token_ids(name: str, *, nullable: bool, filled: bool = False) -> PlainValidator:
    """A flat list of token ids; `name` is the field's, for messages. `filled`: not an empty one."""

    def parse(value: Any) -> list[int] | None:
        if value is None and nullable:
            return None
        if not isinstance(value, list) or not all(map(is_int, value)):
            raise InvalidRequest(f"{name} must be a list of token ids", param=name)
        if filled and not value:
            raise InvalidRequest(f"{name} is empty, so that no token could be drawn", param=name)
        return value

    return PlainValidator(parse)


def parse_text(text: str) -> str:
    """A string that is text; pydantic's own check lets half surrogate pairs pass."""
    try:
        check_text(text, "")
    except InvalidRequest:
        raise PydanticCustomError("text", "must be valid Unicode") from None
    return text


def check_text(text: str, param: str) -> None:
    """Raise InvalidRequest for half a surrogate pair: JSON can spell it, but it is no text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{param} is not valid Unicode: character {error.start} is half of a surrogate pair",
            param=param,
        ) from None


def _text(text: str, param: str) -> str:
    check_text(text, param)
    return text


def _nullable(*schemas: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [*schemas, {"type": "null"}]})


_STRING = {"type": "string"}
_STOP_STRING = {"type": "string", "minLength": 1}

Content = Annotated[
    str | list[dict[str, str]] | None,
    PlainValidator(parse_content),
    _nullable(
        _STRING,
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"type": {"const": "text"}, "text": _STRING},
                "required": ["type", "text"],
                "additionalProperties": False,
            },
        },
    ),
]
Text = Annotated[str, AfterValidator(parse_text)]
_PROMPTS_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            _STRING,
            {"type": "array", "items": _STRING, "minItems": 1, "maxItems": MAX_PROMPTS},
            _TOKEN_IDS_SCHEMA,
            {
                "type": "array",
                "items": _TOKEN_IDS_SCHEMA,
                "minItems": 1,
                "maxItems": MAX_PROMPTS,
            },
        ]
    }
)
Prompts = Annotated[list[str | list[int]], _prompts("prompt"), _PROMPTS_SCHEMA]
Inputs = Annotated[list[str | list[int]], _prompts("input"), _PROMPTS_SCHEMA]
LogitBias = Annotated[
    dict[int, float] | None,
    PlainValidator(parse_logit_bias),
    _nullable(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[0-9]{1,19}$"},
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
        }
    ),
]
Stop = Annotated[
    tuple[str, ...] | None,
    PlainValidator(parse_stop),
    _nullable(_STOP_STRING, {"type": "array", "items": _STOP_STRING, "maxItems": 16}),
]
StopTokenIds = Annotated[
    list[int] | None,
    _token_ids("stop_token_ids", nullable=True),
    _nullable({"type": "array", "items": TOKEN_ID_SCHEMA}),
]
AllowedTokenIds = Annotated[
    list[int] | None,
    _token_ids("allowed_token_ids", nullable=True, filled=True),
    _nullable({"type": "array", "items": TOKEN_ID_SCHEMA, "minItems": 1}),
]
BadWords = Annotated[
    tuple[str, ...] | None,
    PlainValidator(parse_bad_words),
    _nullable({"type": "array", "items": {**_STRING, "pattern": r"\S"}, "maxItems": MAX_BAD_WORDS}),
]
Tokens = Annotated[
    list[int],
    _token_ids("tokens", nullable=False),
    WithJsonSchema({"type": "array", "items": TOKEN_ID_SCHEMA}),
]
