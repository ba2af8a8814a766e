"""What the routes of one app share, and how a route gets at it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from stoker.api.metrics import Metrics
from stoker.api.protocols import Engine, Template, Tokenizer
from stoker.api.streams import InFlight
from stoker.core.config import ServeConfig
from stoker.core.errors import Draining, ModelNotFound
from stoker.core.model import GenerationDefaults


@dataclass(slots=True, kw_only=True)
class AppState:
    """`is_draining` is the only field that changes; the server sets it once, on SIGTERM."""

    engine: Engine
    tokenizer: Tokenizer
    template: Template | None
    config: ServeConfig
    model_name: str
    defaults: GenerationDefaults
    metrics: Metrics
    in_flight: InFlight = field(default_factory=InFlight)
    created: int = field(default_factory=lambda: int(time.time()))
    is_draining: bool = False

    def check_model(self, name: str | None) -> None:
        """Raise ModelNotFound unless `name` is served here; None means the model of the house."""
        if name not in (None, self.model_name):
            shown = name if len(name) <= 80 else name[:80] + "…"
            raise ModelNotFound(
                f"This server has no model {shown!r}; it serves {self.model_name!r}", param="model"
            )

    def check_accepting(self) -> None:
        """Raise Draining once the server takes no new work."""
        if self.is_draining:
            self.metrics.count_rejected()
            raise Draining("The server is stopping and takes no new requests")


# async, because FastAPI sends a plain function to a thread.
async def _state_of(request: Request) -> AppState:
    state = request.app.state.stoker
    assert isinstance(state, AppState)  # build_app sets it
    return state


State = Annotated[AppState, Depends(_state_of)]
