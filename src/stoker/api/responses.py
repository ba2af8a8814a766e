"""Answers as types, for the OpenAPI document: what `assemble` and `ops` build."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

FinishReason = Literal["stop", "length"]


class ErrorFields(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    """Every answer that is not a success."""

    error: ErrorFields


class PromptTokensDetails(TypedDict):
    cached_tokens: int


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class TokenLogprob(TypedDict):
    token: str
    logprob: float
    bytes: list[int]


class ChosenLogprob(TokenLogprob):
    top_logprobs: list[TokenLogprob]


class ChatLogprobs(TypedDict):
    content: list[ChosenLogprob]
    refusal: None


class AssistantMessage(TypedDict):
    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(TypedDict):
    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    stop_reason: int | str | None
    token_ids: NotRequired[list[int]]


class PromptLogprob(TypedDict):
    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = list[dict[str, PromptLogprob] | None]


class ChatCompletion(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_token_ids: NotRequired[list[int]]
    prompt_logprobs: NotRequired[PromptLogprobs]


class CompletionLogprobs(TypedDict):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(TypedDict):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason
    stop_reason: int | str | None
    prompt_token_ids: NotRequired[list[int]]
    prompt_logprobs: NotRequired[PromptLogprobs]
    token_ids: NotRequired[list[int]]


class Completion(TypedDict):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class Embedding(TypedDict):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(TypedDict):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Model(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[Model]


class TokenizeAnswer(TypedDict):
    tokens: list[int]
    count: int
    max_model_len: int
    token_strs: list[str] | None


class DetokenizeAnswer(TypedDict):
    prompt: str


class RenderAnswer(TypedDict):
    prompt: str
    prompt_token_ids: list[int]
    count: int
    max_model_len: int


class AbortAnswer(TypedDict):
    aborted: int


class Status(TypedDict):
    status: Literal["ok"]


class Version(TypedDict):
    version: str


Responses = dict[int | str, dict[str, Any]]


def errors(*statuses: int) -> Responses:
    """Declarations of error answers. 4XX covers what any URL may say: too large, wrong method."""
    declared: Responses = {
        status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses
    }
    return {**declared, "4XX": {"model": ErrorBody, "description": "The request is at fault"}}


def with_stream(chunks: str) -> Responses:
    """The declaration of a success that is a body or, with `stream`, an event stream."""
    return {
        200: {
            "description": f"The answer; with `stream`, server-sent events: {chunks}, then [DONE]",
            "content": {"text/event-stream": {}},
        }
    }


_MEANINGS = {
    400: "A field is wrong, unknown or not supported; `param` names it",
    401: "The API key is missing or wrong",
    404: "No such model or URL",
    413: "The body is too large",
    503: "Overloaded, stopping or restarting; try again after `Retry-After` seconds",
}

REQUEST_ERRORS = errors(400, 401, 404, 413, 503)
