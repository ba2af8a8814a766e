"""POST /v1/completions"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from stoker.api.answer import Job, answer
from stoker.api.assemble import CompletionFormat
from stoker.api.params import completion_params
from stoker.api.prompts import encode_texts
from stoker.api.responses import REQUEST_ERRORS, Completion, with_stream
from stoker.api.schema import CompletionRequest
from stoker.api.state import State
from stoker.core.errors import InvalidRequest

router = APIRouter(tags=["generation"])


@router.post(
    "/v1/completions",
    response_model=Completion,
    responses=REQUEST_ERRORS | with_stream("text_completion objects"),
    summary="Continue one or more texts",
)
async def create_completion(body: CompletionRequest, request: Request, state: State) -> Response:
    state.check_model(body.model)
    state.check_accepting()
    params = completion_params(body, state.defaults)
    choices, room = len(body.prompt) * params.n, state.engine.info.max_choices
    if choices > room:
        raise InvalidRequest(
            f"{len(body.prompt)} prompts with n = {params.n} make {choices} choices, but this "
            f"server takes at most {room} at once",
            param="prompt" if len(body.prompt) > room else "n",
        )
    prompts = await encode_texts(state, body.prompt, add_special_tokens=True)
    job = Job(
        body=body,
        params=params,
        prompts=prompts,
        wire_format=CompletionFormat(state.tokenizer),
        id_prefix="cmpl",
    )
    return await answer(state, request, job)
