"""What is known of one HTTP request by its end: for the access log, and for whoever traces.

The middleware makes a record, the routes add to it, and at the end it goes to the app's observers.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.core.request import FinishReason, Output, SamplingParams, Timing, Usage

logger = logging.getLogger("stoker.access")

REQUEST_ID = "X-Request-Id"
CLIENT_CLOSED_REQUEST = 499
"""The status of a request whose client left before it got one; nginx' number."""

_GOOD_ID = re.compile(r"[\x21-\x7e]{1,128}")
_KEY = "stoker.record"
_PROBES = frozenset({"/health", "/ready", "/metrics"})


class Generation:
    """The engine's part in one request: all choices of all its prompts."""

    def __init__(self, operation: str, params: SamplingParams, response_id: str | None) -> None:
        """`operation` is a name of OpenTelemetry's GenAI conventions: chat, text_completion, …"""
        self.operation = operation
        self.params = params
        self.response_id = response_id
        self.timing = Timing()
        """Of the choice that ended first."""
        self._last: dict[tuple[int, int], Output] = {}
        self._cut: list[FinishReason] = []

    def observe(self, prompt: int, output: Output) -> None:
        """Take in the next piece of a choice."""
        self._last[prompt, output.choice] = output
        if output.finish_reason is not None and not self.timing.finished:
            self.timing = output.timing

    def cut(self, reason: FinishReason, num_choices: int) -> None:
        """That many choices ended for `reason`, without a last piece."""
        self._cut = [reason] * num_choices

    @property
    def finish_reasons(self) -> list[str]:
        """One for each choice."""
        reasons = [output.finish_reason for output in self._last.values()]
        return [reason.value for reason in [*filter(None, reasons), *self._cut]]

    @property
    def usage(self) -> Usage:
        """Of what was begun. A prompt counts once, whatever n."""
        prompts = {prompt: output.usage for (prompt, _), output in reversed(self._last.items())}
        return Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in prompts.values()),
            completion_tokens=sum(o.usage.completion_tokens for o in self._last.values()),
            cached_tokens=sum(usage.cached_tokens for usage in prompts.values()),
        )


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """One HTTP request. Times are seconds since the epoch."""

    id: str
    method: str
    path: str
    headers: Headers
    client: str | None
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    status: int = CLIENT_CLOSED_REQUEST
    error: str | None = None
    """The code of the error that the client was told."""
    generation: Generation | None = None


Observer = Callable[[RequestRecord], None]


def record_of(scope: Scope) -> RequestRecord:
    """The record of the request that `scope` belongs to."""
    record = scope[_KEY]
    assert isinstance(record, RequestRecord)  # RecordMiddleware is outermost
    return record


class RecordMiddleware:
    """Makes a record, echoes the client's X-Request-Id or makes one, tells the observers."""

    def __init__(self, app: ASGIApp, observers: Sequence[Observer]) -> None:
        self._app = app
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_KEY] = record = _record(scope)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = record.id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            record.ended = time.time()
            for observe in self._observers:
                observe(record)


def log_access(record: RequestRecord) -> None:
    """One line of JSON; none for a probe that went well, of which there are many."""
    if record.path in _PROBES and record.status == 200:
        return
    line: dict[str, Any] = {
        "id": record.id,
        "client": record.client,
        "method": record.method,
        "path": record.path,
        "status": record.status,
        "seconds": round(record.ended - record.started, 4),
    }
    if record.error is not None:
        line["error"] = record.error
    if record.generation is not None:
        line |= _generation_fields(record.generation)
    logger.info("%s", msgspec.json.encode(line).decode())


def _generation_fields(generation: Generation) -> dict[str, Any]:
    usage, timing = generation.usage, generation.timing
    fields: dict[str, Any] = {
        "response_id": generation.response_id,
        "finish_reasons": generation.finish_reasons,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    if timing.scheduled:
        fields["queue_seconds"] = round(timing.scheduled - timing.arrival, 4)
    if timing.first_token:
        fields["first_token_seconds"] = round(timing.first_token - timing.arrival, 4)
    return fields


def _record(scope: Scope) -> RequestRecord:
    headers = Headers(scope=scope)
    given = headers.get(REQUEST_ID, "")
    client = scope.get("client")
    return RequestRecord(
        id=given if _GOOD_ID.fullmatch(given) else f"req-{uuid.uuid4().hex}",
        method=scope["method"],
        path=_printable(scope["path"]),
        headers=headers,
        client=f"{client[0]}:{client[1]}" if client else None,
    )


def _printable(text: str) -> str:
    """A URL may escape bytes that are no UTF-8; the server decodes them to lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
