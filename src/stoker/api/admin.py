"""What an operator does to a running server. With `--api-key`, these want the key too."""

from __future__ import annotations

import logging

from fastapi import APIRouter

from stoker.api.responses import AbortAnswer, Status, errors
from stoker.api.schema import AbortRequest
from stoker.api.state import State
from stoker.core.errors import InvalidRequest, RequestAborted

logger = logging.getLogger(__name__)

router = APIRouter(tags=["administration"])


@router.post("/abort", responses=errors(400, 401), summary="End requests by their ids")
async def abort(body: AbortRequest, state: State) -> AbortAnswer:
    if (body.request_ids is None) == (body.all is not True):
        raise InvalidRequest("Give either request_ids or all: true", param="request_ids")
    error = RequestAborted("The request was aborted through /abort")
    return {"aborted": state.in_flight.fail(body.request_ids, error)}


@router.post(
    "/reset_prefix_cache", responses=errors(401, 503), summary="Forget all cached prefixes"
)
async def reset_prefix_cache(state: State) -> Status:
    await state.engine.reset_prefix_cache()
    logger.info("the prefix cache was reset")
    return {"status": "ok"}
