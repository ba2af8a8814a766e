"""Everything that does not generate: models, health, metrics, tokens, version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from stoker.api.logprobs import token_text
from stoker.api.prompts import encode_chat, encode_texts, run_off_loop
from stoker.api.responses import (
    REQUEST_ERRORS,
    DetokenizeAnswer,
    Model,
    ModelList,
    Status,
    TokenizeAnswer,
    Version,
    errors,
)
from stoker.api.schema import DetokenizeRequest, TokenizeRequest
from stoker.api.state import AppState, State
from stoker.core.errors import Draining, InvalidRequest
from stoker.core.validate import check_token_id

router = APIRouter(tags=["operations"])


@router.get("/v1/models", responses=errors(401, 503), summary="The models served here")
async def list_models(state: State) -> ModelList:
    return {"object": "list", "data": [_model(state)]}


@router.get("/v1/models/{model:path}", responses=errors(401, 404, 503), summary="One model")
async def get_model(model: str, state: State) -> Model:
    state.check_model(model)
    return _model(state)


@router.get("/health", responses=errors(503), summary="200 while the engine makes progress")
async def get_health(state: State) -> Status:
    state.engine.check_health()
    return {"status": "ok"}


@router.get("/ready", responses=errors(503), summary="200 while new requests are taken")
async def get_ready(state: State) -> Status:
    if state.is_draining:
        raise Draining("The server is stopping")
    state.engine.check_health()
    return {"status": "ok"}


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    summary="Prometheus metrics",
)
async def get_metrics(state: State) -> Response:
    return Response(state.metrics.render(), media_type=CONTENT_TYPE_LATEST)


@router.get("/version", summary="The version of the server")
async def get_version() -> Version:
    try:
        return {"version": version("stoker")}
    except PackageNotFoundError:  # a source tree on the path, not an installed package
        return {"version": "unknown"}


@router.post("/tokenize", responses=REQUEST_ERRORS, summary="Text or messages to token ids")
async def tokenize(body: TokenizeRequest, state: State) -> TokenizeAnswer:
    state.check_model(body.model)
    if (body.prompt is None) == (body.messages is None):
        raise InvalidRequest("Give either prompt or messages", param="prompt")
    if body.prompt is not None:
        [tokens] = await encode_texts(state, [body.prompt], body.add_special_tokens is not False)
    else:
        tokens = await encode_chat(
            state, body.messages or [], body.add_generation_prompt, body.chat_template_kwargs
        )
    pieces = [token_text(token, state.tokenizer) for token in tokens]
    return {
        "tokens": tokens,
        "count": len(tokens),
        "max_model_len": state.engine.info.max_model_len,
        "token_strs": pieces if body.return_token_strs else None,
    }


@router.post("/detokenize", responses=REQUEST_ERRORS, summary="Token ids to text")
async def detokenize(body: DetokenizeRequest, state: State) -> DetokenizeAnswer:
    state.check_model(body.model)
    tokens = body.tokens
    if tokens:
        for token_id in (min(tokens), max(tokens)):
            check_token_id("tokens", token_id, state.engine.info.vocab_size)
    text = await run_off_loop(
        len(tokens), lambda: state.tokenizer.decode(tokens, skip_special_tokens=False)
    )
    return {"prompt": text}


def _model(state: AppState) -> Model:
    return {
        "id": state.model_name,
        "object": "model",
        "created": state.created,
        "owned_by": "stoker",
        "max_model_len": state.engine.info.max_model_len,
    }
