"""The API key: a bearer token on all that costs work, checked before a body is read."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.api.errors import error_response
from stoker.core.errors import Unauthorized

GUARDED = ("/v1/", "/tokenize", "/detokenize", "/abort", "/reset_prefix_cache")


class ApiKeyMiddleware:
    """Lets a request pass if it carries the key, or asks for nothing that is guarded."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._key = api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_guarded(scope) or self._has_key(scope):
            await self._app(scope, receive, send)
            return
        error = Unauthorized("The API key is missing or wrong: send Authorization: Bearer KEY")
        await error_response(error.info)(scope, receive, send)

    def _is_guarded(self, scope: Scope) -> bool:
        return str(scope["path"]).startswith(GUARDED)

    def _has_key(self, scope: Scope) -> bool:
        # Header bytes come decoded as Latin-1, whatever the client meant.
        header = Headers(scope=scope).get("authorization", "").encode("latin-1")
        scheme, _, token = header.partition(b" ")
        # Comparing in constant time tells nothing about how much of a guess was right.
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._key)
