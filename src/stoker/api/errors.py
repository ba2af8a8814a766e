"""Every error becomes one body: `{"error": {message, type, param, code}}`, OpenAI's shape.

Handlers for the whole app live here; nothing else writes an error. A message never carries a path,
a traceback or anything else of the inside: an unexpected exception is logged and answered as 500.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from stoker.api.record import record_of
from stoker.core.errors import ErrorInfo, InvalidRequest, NotFound, StokerError

logger = logging.getLogger("stoker.api")

UNEXPECTED = ErrorInfo(
    "The server met an unexpected error; its log says more.", "server_error", 500, "internal_error"
)

_LONGEST_MESSAGE = 2000


def error_body(info: ErrorInfo) -> dict[str, Any]:
    """The body of an error response, and the payload of an error event in a stream."""
    return {
        "error": {
            "message": _printable(info.message)[:_LONGEST_MESSAGE],
            "type": info.type,
            "param": _printable(info.param)[:_LONGEST_MESSAGE] if info.param else None,
            "code": info.code,
        }
    }


def error_response(info: ErrorInfo) -> Response:
    headers = {} if info.retry_after_s is None else {"Retry-After": str(info.retry_after_s)}
    if info.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        msgspec.json.encode(error_body(info)),
        info.status,
        headers,
        media_type="application/json",
    )


def info_of(error: Exception) -> ErrorInfo:
    """What a client may know of an exception; logs the ones that nobody meant to raise."""
    if isinstance(error, StokerError):
        return error.info
    logger.error("unexpected error", exc_info=error)
    return UNEXPECTED


def install(app: FastAPI) -> None:
    """Answer every exception of every route in one shape."""

    async def on_stoker_error(request: Request, error: Exception) -> Response:
        return answer(request, info_of(error))

    async def on_validation_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # registered for this type only
        return answer(request, describe(error.errors()).info)

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # registered for this type only
        response = answer(request, _http_info(error))
        response.headers.update(error.headers or {})
        return response

    def answer(request: Request, info: ErrorInfo) -> Response:
        record_of(request.scope).error = info.code or info.type
        return error_response(info)

    app.add_exception_handler(StokerError, on_stoker_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_exception)


def unsupported(param: str, what: str | None = None, reason: str | None = None) -> InvalidRequest:
    """The refusal of something known that this release does not do; `what` defaults to `param`."""
    because = f": {reason}" if reason else ""
    return InvalidRequest(
        f"{what or param} is not supported by this server{because}",
        param=param,
        code="unsupported_parameter",
    )


def describe(errors: Sequence[Any]) -> InvalidRequest:
    """One sentence for what pydantic found, naming the field as a client spells it."""
    first = errors[0]
    if first["type"] == "json_invalid":
        reason = first.get("ctx", {}).get("error", "syntax error")
        return InvalidRequest(f"The body is not valid JSON: {reason}")
    param = _field_name(first["loc"])
    if param is None:
        return InvalidRequest("The body must be a JSON object (Content-Type: application/json)")
    if first["type"] == "missing":
        return InvalidRequest(f"{param} is required, but missing", param=param)
    if first["type"] == "none_required":
        return unsupported(param)
    reason = first["msg"].removeprefix("Input ").removeprefix("List ")
    value = first["input"]
    if isinstance(value, str | int | float | None):
        shown = json.dumps(value)
        shown = shown if len(shown) <= 80 else shown[:80] + "…"
        return InvalidRequest(f"{param} is {shown}, but {reason}", param=param)
    return InvalidRequest(f"{param} {reason}", param=param)


def _field_name(location: Sequence[int | str]) -> str | None:
    """("body", "messages", 0, "role") → "messages[0].role"; None for the body itself.

    The first part says where the value came from ("body").
    """
    name = ""
    for part in location[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += f".{part}" if name else part
    return name or None


def _http_info(error: HTTPException) -> ErrorInfo:
    if error.status_code == 404:
        return NotFound("There is no such URL on this server").info
    if error.status_code == 405:
        return ErrorInfo("This URL does not take that method", InvalidRequest.type, 405)
    kind = InvalidRequest.type if error.status_code < 500 else StokerError.type
    return ErrorInfo(str(error.detail), kind, error.status_code)


def _printable(text: str) -> str:
    """JSON allows half a surrogate pair in a string, UTF-8 does not."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
