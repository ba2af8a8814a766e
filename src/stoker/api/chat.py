"""POST /v1/chat/completions"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from stoker.api.answer import Job, answer
from stoker.api.assemble import ChatFormat, Prompt
from stoker.api.params import chat_params
from stoker.api.prompts import encode_chat, spelling, truncated
from stoker.api.responses import REQUEST_ERRORS, ChatCompletion, with_stream
from stoker.api.schema import ChatRequest
from stoker.api.state import AppState, State

router = APIRouter(tags=["generation"])


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    responses=REQUEST_ERRORS | with_stream("chat.completion.chunk objects"),
    summary="Answer a conversation",
)
async def create_chat_completion(body: ChatRequest, request: Request, state: State) -> Response:
    state.check_model(body.model)
    state.check_accepting()
    return await answer(state, request, await chat_job(state, body))


async def chat_job(state: AppState, body: ChatRequest) -> Job:
    """What a conversation asks for. Raises InvalidRequest."""
    params = chat_params(body, state.defaults, state.tokenizer)
    prompt = await encode_chat(
        state, body.messages, body.add_generation_prompt, body.chat_template_kwargs
    )
    prompt = truncated(state, body.truncate_prompt_tokens, params.max_tokens, prompt)
    return Job(
        body=body,
        params=params,
        prompts=[Prompt(token_ids=prompt, logprobs=body.prompt_logprobs)],
        wire_format=ChatFormat(spelling(state, body)),
        id_prefix="chatcmpl",
        operation="chat",
    )
