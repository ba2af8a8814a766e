"""Request bodies: the wire models, strict, and nothing of what happens next.

Every field is either acted on, or refused by name (`unsupported.py`): a field is never ignored.
The bounds are those of `core.validate`, so that the OpenAPI document has them too. null and a
missing field mean the same: the model's own default.

Facts of the formats: OpenAI's API reference (chat completions, completions) and vLLM's extra
sampling parameters, spelled as there.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stoker.api import unsupported
from stoker.api.fields import (
    AllowedTokenIds,
    BadWords,
    Content,
    Inputs,
    LogitBias,
    Prompts,
    Stop,
    StopTokenIds,
    Text,
    Tokens,
)
from stoker.core.errors import InvalidRequest
from stoker.core.request import Pooling
from stoker.core.validate import MAX_CHOICES, MAX_LOGPROBS

_INT32 = 2**31 - 1


class Wire(BaseModel):
    """A JSON object of which every member is known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StreamOptions(Wire):
    include_usage: bool | None = None
    """Send one more chunk, with usage and without choices, at the end."""


class SamplingBody(Wire):
    """What both generating endpoints take."""

    UNSUPPORTED: ClassVar[dict[str, tuple[Any, ...]]] = {}

    model: Text | None = None
    max_tokens: int | None = Field(None, ge=1, le=_INT32)
    truncate_prompt_tokens: int | None = Field(
        None, ge=-1, le=_INT32, description="Keep the last k tokens; -1: as many as have room"
    )
    prompt_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    return_tokens_as_token_ids: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=_INT32, description="0 or -1: all tokens")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: LogitBias = None
    allowed_token_ids: AllowedTokenIds = None
    bad_words: BadWords = None
    seed: int | None = Field(None, ge=-(2**63), le=2**64 - 1)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES)
    stop: Stop = None
    stop_token_ids: StopTokenIds = None
    include_stop_str_in_output: bool | None = None
    min_tokens: int | None = Field(None, ge=0, le=_INT32)
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    priority: int | None = Field(None, ge=-_INT32, le=_INT32, description="Lower runs first")
    cache_salt: Text | None = Field(None, min_length=1, max_length=256)
    return_token_ids: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _act_on_or_refuse(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return unsupported.strip(body, frozenset(cls.model_fields), cls.UNSUPPORTED)

    @model_validator(mode="after")
    def _check_stream_options(self) -> SamplingBody:
        if self.stream_options is not None and not self.stream:
            raise InvalidRequest(
                "stream_options is only allowed together with stream: true", param="stream_options"
            )
        return self


Role = Literal["system", "developer", "user", "assistant"]


class Message(Wire):
    """One turn. The members that a client sends back from our own answers may be null."""

    role: Role
    content: Content = None
    name: Text | None = None
    refusal: None = None
    audio: None = None
    annotations: None = None
    function_call: None = None
    tool_calls: None = None
    reasoning: None = None
    reasoning_content: None = None


Messages = Annotated[list[Message], Field(min_length=1, fail_fast=True)]
TemplateVariables = dict[str, Any]


class ChatRequest(SamplingBody):
    """POST /v1/chat/completions"""

    UNSUPPORTED = unsupported.CHAT_UNSUPPORTED

    messages: Messages
    max_completion_tokens: int | None = Field(None, ge=1, le=_INT32)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    add_generation_prompt: bool | None = None
    chat_template_kwargs: TemplateVariables | None = None


class CompletionRequest(SamplingBody):
    """POST /v1/completions"""

    UNSUPPORTED = unsupported.COMPLETION_UNSUPPORTED

    prompt: Prompts
    max_tokens: int | None = Field(None, ge=0, le=_INT32)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)


class EmbeddingRequest(Wire):
    """POST /v1/embeddings"""

    model: Text | None = None
    input: Inputs
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, ge=1, le=_INT32)
    pooling: Pooling | None = None
    normalize: bool | None = None
    truncate_prompt_tokens: int | None = Field(None, ge=-1, le=_INT32)
    priority: int | None = Field(None, ge=-_INT32, le=_INT32, description="Lower runs first")
    cache_salt: Text | None = Field(None, min_length=1, max_length=256)

    @model_validator(mode="before")
    @classmethod
    def _act_on_or_refuse(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        return unsupported.strip(
            body, frozenset(cls.model_fields), unsupported.EMBEDDING_UNSUPPORTED
        )


class AbortRequest(Wire):
    """POST /abort: either `request_ids` or `all`."""

    request_ids: list[Text] | None = Field(None, min_length=1, max_length=4096)
    all: bool | None = None


class TokenizeRequest(Wire):
    """POST /tokenize: either `prompt` or `messages`."""

    model: Text | None = None
    prompt: Text | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: TemplateVariables | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(Wire):
    """POST /detokenize"""

    model: Text | None = None
    tokens: Tokens
