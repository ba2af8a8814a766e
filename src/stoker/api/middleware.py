"""What surrounds every route: the body limit, and the last resort for exceptions.

Plain ASGI on purpose: Starlette's BaseHTTPMiddleware hides the client's disconnect from a route.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.errors import error_response, info_of
from stoker.core.errors import ErrorInfo, InvalidRequest


class CatchAllMiddleware:
    """Answers an exception that no handler knew with a plain 500, and logs it once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except Exception as error:
            info = info_of(error)
            if scope["type"] != "http" or started:
                raise
            await error_response(info)(scope, receive, send)


class BodyLimitMiddleware:
    """Reads the body before the app does, and refuses what is too large with 413.

    Reading it here keeps the limit true for chunked bodies too, and what follows gets one piece.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        is_number = length.isascii() and length.isdigit() and len(length) < 20
        if is_number and int(length) > self._max_bytes:
            await error_response(self._too_large)(scope, receive, send)
            return
        parts: list[bytes] = []
        size = 0
        message: Message = {"more_body": True}
        while message.get("more_body", False):
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_bytes:
                await error_response(self._too_large)(scope, receive, send)
                return
        body = b"".join(parts)
        is_delivered = False

        async def replay() -> Message:
            nonlocal is_delivered
            if is_delivered:
                return await receive()
            is_delivered = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    @property
    def _too_large(self) -> ErrorInfo:
        return ErrorInfo(
            f"The body is larger than {self._max_bytes} bytes, the most this server takes",
            InvalidRequest.type,
            413,
            "body_too_large",
        )
