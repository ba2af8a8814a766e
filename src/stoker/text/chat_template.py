"""Messages → the prompt that the model was trained on, by the checkpoint's own template.

The template is data of the checkpoint; the messages are a stranger's and are only ever values in
it, never source. Whatever goes wrong in rendering is the request's fault: 400, never 500.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template, TemplateError

from stoker.core.errors import CheckpointError, InvalidRequest
from stoker.text.messages import ContentShape, Message, prepare
from stoker.text.template_budget import TemplateTooCostly, with_deadline
from stoker.text.template_environment import template_environment
from stoker.text.tokenizer import Tokenizer

MAX_PROMPT_CHARACTERS = 64 * 1024 * 1024
"""A template may repeat what it is given; past this the prompt fits no model."""
MAX_RENDER_SECONDS = 10.0

_RESERVED = frozenset(
    {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}
    | {"raise_exception", "strftime_now"}
)
_PROBE = "stoker probe"


class ChatTemplate:
    """One compiled template with the special tokens of its tokenizer. Safe in several threads."""

    def __init__(self, source: str, tokenizer: Tokenizer) -> None:
        """Compile.

        Raises:
            CheckpointError: `source` is no valid template, with the line, or does not come to an
                end with one short message.
        """
        try:
            self._template: Template = template_environment().from_string(source)
        except Exception as error:  # also what Python says of the code that jinja2 writes
            line = getattr(error, "lineno", "?")
            raise CheckpointError(f"chat template, line {line}: {_reason(error)}") from error
        self._tokenizer = tokenizer
        self._special = {
            "bos_token": _piece(tokenizer, tokenizer.bos_id),
            "eos_token": _piece(tokenizer, tokenizer.eos_id),
        }
        self._shape = self._find_shape()

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt text. `variables` are further names for the template (enable_thinking, …).

        Raises:
            InvalidRequest: the template refuses the messages, or cannot be rendered with them.
        """
        _check_names(variables or {})
        context = {
            **(variables or {}),
            "tools": list(tools) if tools else None,
            "add_generation_prompt": add_generation_prompt,
        }
        decoded = prepare(messages, self._shape, decode_arguments=True)
        try:
            return self._render(decoded, context)
        except InvalidRequest:
            # Some templates paste the arguments of a tool call as text: show them the text.
            raw = prepare(messages, self._shape, decode_arguments=False)
            if raw == decoded:
                raise
            return self._render(raw, context)

    def render_to_ids(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """`render`, tokenized. BOS comes once, whether the template writes it or not."""
        text = self.render(
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            variables=variables,
        )
        try:
            # The template is the whole prompt: where it writes no BOS, the model wants none.
            return self._tokenizer.encode(text, add_special_tokens=False)
        except InvalidRequest as error:
            raise InvalidRequest(f"messages: {error.message}", param="messages") from error

    def _render(self, messages: list[dict[str, Any]], context: Mapping[str, Any]) -> str:
        variables = with_deadline(
            {**context, **self._special, "messages": messages}, MAX_RENDER_SECONDS
        )
        pieces: list[str] = []
        room = MAX_PROMPT_CHARACTERS
        try:
            for piece in self._template.generate(variables):
                pieces.append(piece)
                room -= len(piece)
                if room < 0:
                    raise TemplateError("the rendered prompt is too large")
        except Exception as error:  # templates run code: anything can come out of them
            raise InvalidRequest(
                f"the model's chat template cannot take these messages: {_reason(error)}",
                param="messages",
            ) from error
        return "".join(pieces)

    def _find_shape(self) -> ContentShape:
        """Render one message both ways and see which of them comes out as text."""
        text = self._probe(_PROBE)
        parts = self._probe([{"type": "text", "text": _PROBE}])
        if _PROBE in text:
            return ContentShape.EITHER if parts == text else ContentShape.TEXT
        return ContentShape.PARTS if _PROBE in parts else ContentShape.TEXT

    def _probe(self, content: Any) -> str:
        """The prompt of one user message; empty where the template refuses it."""
        context = {"tools": None, "add_generation_prompt": True}
        try:
            return self._render([{"role": "user", "content": content}], context)
        except InvalidRequest as error:
            if isinstance(error.__cause__, TemplateTooCostly):
                raise CheckpointError(f"chat template: {error.__cause__}") from error
            return ""


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _piece(tokenizer: Tokenizer, token_id: int | None) -> str:
    return "" if token_id is None else tokenizer.id_to_piece(token_id)


def _check_names(variables: Mapping[str, Any]) -> None:
    for name in variables:
        if name in _RESERVED:
            raise InvalidRequest(
                f"chat_template_kwargs must not set {name!r}", param="chat_template_kwargs"
            )
