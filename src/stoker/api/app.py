"""Build the ASGI app of one engine: routes, middleware, error handling.

The order of the middleware, outermost first: the record of the request, the last resort for
exceptions, CORS (so that a browser can read errors), API key, body limit. The app starts and stops
nothing.
"""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from stoker.api import admin, chat, completions, embeddings, errors, ops, render
from stoker.api.auth import ApiKeyMiddleware
from stoker.api.metrics import Metrics
from stoker.api.middleware import BodyLimitMiddleware, CatchAllMiddleware
from stoker.api.protocols import Engine, Template, Tokenizer
from stoker.api.record import REQUEST_ID, Observer, RecordMiddleware, log_access
from stoker.api.state import AppState
from stoker.core.config import ServeConfig, check_server
from stoker.core.model import GenerationDefaults

MIB = 1024**2


def build_app(
    engine: Engine,
    tokenizer: Tokenizer,
    template: Template | None,
    config: ServeConfig,
    model_name: str,
    defaults: GenerationDefaults,
) -> FastAPI:
    """An app whose `state.stoker` is its `AppState`.

    `model_name` is the checkpoint's; `config.served_model_name` wins over it. `template` is None
    for a model that has none: chat requests are then refused by name.

    Raises:
        ConfigError: an option of `config` cannot work.
    """
    check_server(config)
    name = config.served_model_name or model_name
    app = FastAPI(title="Stoker", docs_url="/docs", redoc_url=None)
    app.state.stoker = AppState(
        engine=engine,
        tokenizer=tokenizer,
        template=template,
        config=config,
        model_name=name,
        defaults=defaults,
        metrics=Metrics(name, lambda: engine.stats),
    )
    for part in (chat, render, completions, embeddings, ops, admin):
        app.include_router(part.router)
    errors.install(app)
    _add_middleware(app, config)
    return app


def _add_middleware(app: FastAPI, config: ServeConfig) -> None:
    """Each one added surrounds those before it."""
    app.add_middleware(BodyLimitMiddleware, max_bytes=config.max_body_mib * MIB)
    if config.api_key is not None:
        app.add_middleware(ApiKeyMiddleware, api_key=config.api_key)
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[REQUEST_ID, "Retry-After"],
        )
    app.add_middleware(CatchAllMiddleware)
    observers: list[Observer] = [log_access] if config.access_log else []
    app.add_middleware(RecordMiddleware, observers=observers)
