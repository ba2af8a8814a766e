"""POST /v1/chat/completions/render: what the model would read, without running it."""

from __future__ import annotations

from fastapi import APIRouter

from stoker.api.chat import chat_job
from stoker.api.prompts import run_off_loop
from stoker.api.responses import REQUEST_ERRORS, RenderAnswer
from stoker.api.schema import ChatRequest
from stoker.api.state import State

router = APIRouter(tags=["operations"])


@router.post(
    "/v1/chat/completions/render",
    responses=REQUEST_ERRORS,
    summary="The prompt of a conversation, as text and tokens",
)
async def render_chat(body: ChatRequest, state: State) -> RenderAnswer:
    state.check_model(body.model)
    job = await chat_job(state, body)
    [prompt] = job.prompts
    tokens = prompt.token_ids
    text = await run_off_loop(
        len(tokens), lambda: state.tokenizer.decode(tokens, skip_special_tokens=False)
    )
    return {
        "prompt": text,
        "prompt_token_ids": tokens,
        "count": len(tokens),
        "max_model_len": state.engine.info.max_model_len,
    }
