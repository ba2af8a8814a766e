"""POST /v1/completions"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from stoker.api.answer import Job, answer
from stoker.api.assemble import CompletionFormat, Prompt
from stoker.api.params import completion_params
from stoker.api.prompts import encode_texts, spelling, truncated
from stoker.api.responses import REQUEST_ERRORS, Completion, with_stream
from stoker.api.schema import CompletionRequest
from stoker.api.state import AppState, State
from stoker.core.errors import InvalidRequest
from stoker.core.request import SamplingParams

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
    params = completion_params(body, state.defaults, state.tokenizer)
    choices, room = len(body.prompt) * params.n, state.engine.info.max_choices
    if choices > room:
        raise InvalidRequest(
            f"{len(body.prompt)} prompts with n = {params.n} make {choices} choices, but this "
            f"server takes at most {room} at once",
            param="prompt" if len(body.prompt) > room else "n",
        )
    token_ids = await encode_texts(state, body.prompt, add_special_tokens=True)
    job = Job(
        body=body,
        params=params,
        prompts=[
            _prompt(state, body, params, given, ids)
            for given, ids in zip(body.prompt, token_ids, strict=True)
        ],
        wire_format=CompletionFormat(spelling(state, body), params.skip_special_tokens),
        id_prefix="cmpl",
        operation="text_completion",
    )
    return await answer(state, request, job)


def _prompt(
    state: AppState,
    body: CompletionRequest,
    params: SamplingParams,
    given: str | list[int],
    token_ids: list[int],
) -> Prompt:
    most, is_text = body.truncate_prompt_tokens, isinstance(given, str)
    kept = truncated(state, most, params.max_tokens, token_ids, is_text=is_text)
    echo = None
    if body.echo and isinstance(given, str) and len(kept) == len(token_ids):
        echo = given  # as it came, not as its tokens spell it
    elif body.echo:
        echo = state.tokenizer.decode(kept, params.skip_special_tokens)
    return Prompt(
        token_ids=kept,
        echo=echo,
        echo_logprobs=body.logprobs if body.echo else None,
        logprobs=body.prompt_logprobs,
    )
