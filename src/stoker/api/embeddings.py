"""POST /v1/embeddings: the hidden states of a text as one vector. Facts: OpenAI's API reference."""

from __future__ import annotations

import base64
import sys
from array import array

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from stoker.api.assemble import usage_json
from stoker.api.params import named_as
from stoker.api.prompts import encode_texts, truncated
from stoker.api.record import CLIENT_CLOSED_REQUEST, Generation, RequestRecord, record_of
from stoker.api.responses import REQUEST_ERRORS, EmbeddingList
from stoker.api.schema import EmbeddingRequest
from stoker.api.sse import run_while_connected
from stoker.api.state import AppState, State
from stoker.api.streams import RequestOutputs
from stoker.core.errors import InvalidRequest, Overloaded, RequestAborted, RequestFailed
from stoker.core.request import FinishReason, Output, SamplingParams, Usage
from stoker.core.validate import check_prompt
from stoker.engine.vectors import check_dimensions, embedding

router = APIRouter(tags=["embeddings"])

PARAMS = SamplingParams(max_tokens=0)
NAMES = {"prompt": "input"}


@router.post(
    "/v1/embeddings",
    response_model=EmbeddingList,
    responses=REQUEST_ERRORS,
    summary="Turn texts into vectors",
)
async def create_embeddings(body: EmbeddingRequest, request: Request, state: State) -> Response:
    state.check_model(body.model)
    state.check_accepting()
    _check_size(state, body)
    prompts = await _prompts(state, body)
    state.check_accepting()
    try:
        work = _run(state, body, prompts, record_of(request.scope))
        outputs = await run_while_connected(request.receive, work)
    except ClientDisconnect:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    except Overloaded:
        state.metrics.count_rejected()
        raise
    usage = Usage(
        prompt_tokens=sum(output.usage.prompt_tokens for output in outputs),
        cached_tokens=sum(output.usage.cached_tokens for output in outputs),
    )
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _vector(body, output)}
            for index, output in enumerate(outputs)
        ],
        "model": state.model_name,
        "usage": usage_json(usage),
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _check_size(state: AppState, body: EmbeddingRequest) -> None:
    """Refuse what this engine could never give."""
    info = state.engine.info
    check_dimensions(body.dimensions, info.hidden_size)
    if len(body.input) > info.max_choices:
        raise InvalidRequest(
            f"input has {len(body.input)} texts, but this server takes at most "
            f"{info.max_choices} at once",
            param="input",
        )


async def _prompts(state: AppState, body: EmbeddingRequest) -> list[list[int]]:
    info = state.engine.info
    prompts = [
        truncated(state, body.truncate_prompt_tokens, 0, ids, is_text=isinstance(given, str))
        for given, ids in zip(
            body.input, await encode_texts(state, body.input, add_special_tokens=True), strict=True
        )
    ]
    for prompt in prompts:
        check_prompt(prompt, info.vocab_size, info.max_model_len, "input", PARAMS.max_tokens)
    return prompts


async def _run(
    state: AppState, body: EmbeddingRequest, prompts: list[list[int]], record: RequestRecord
) -> list[Output]:
    """The one output of each prompt, in order; aborts all of them when it is cancelled."""
    record.generation = generation = Generation("embeddings", PARAMS, None)
    stream = RequestOutputs(
        [
            state.engine.generate(
                prompt,
                PARAMS,
                priority=body.priority or 0,
                cache_salt=body.cache_salt,
                pooling=body.pooling or state.config.pooling,
                request_id=record.id,
            )
            for prompt in prompts
        ]
    )
    state.in_flight.add(stream, {record.id})
    outputs: dict[int, Output] = {}
    end = FinishReason.ABORT
    try:
        with named_as(NAMES):
            while not stream.is_over:
                await stream.wait(None)
                while (item := stream.take()) is not None:
                    outputs[item[0]] = item[1]
                    state.metrics.observe(item[1])
                    generation.observe(*item)
    except Exception as error:
        if not isinstance(error, RequestAborted):
            end = FinishReason.ERROR
        raise
    finally:
        state.in_flight.remove(stream)
        state.metrics.count_ended(end, len(prompts) - len(outputs))
        generation.cut(end, len(prompts) - len(outputs))
        await stream.close()
    if any(output.embedding is None for output in outputs.values()):
        raise RequestFailed("The engine ended this request without an embedding")
    return [outputs[index] for index in range(len(prompts))]


def _vector(body: EmbeddingRequest, output: Output) -> list[float] | str:
    pooled = output.embedding or ()
    vector = embedding(pooled, body.dimensions, normalize=body.normalize is not False)
    return vector.tolist() if body.encoding_format != "base64" else _base64(vector)


def _base64(vector: array[float]) -> str:
    """Little-endian float32, as OpenAI's clients read it."""
    if sys.byteorder == "big":
        vector.byteswap()
    return base64.b64encode(vector.tobytes()).decode("ascii")
