"""From a prompt and its parameters to the engine's requests; for the client and `LLM` alike."""

from __future__ import annotations

import time
import uuid

from stoker.core.config import EngineConfig, Limits
from stoker.core.errors import InvalidRequest
from stoker.core.model import PAGE_SIZE
from stoker.core.request import Pooling, Request, SamplingParams
from stoker.core.validate import check_prompt, check_sampling
from stoker.engine.wire import EngineInfo
from stoker.sched.admission import max_request_tokens


def engine_info(
    limits: Limits, config: EngineConfig, weight_bytes: int, hidden_size: int
) -> EngineInfo:
    """What an engine with these limits tells its clients about itself."""
    return EngineInfo(
        vocab_size=limits.vocab_size,
        hidden_size=hidden_size,
        max_model_len=limits.max_model_len,
        num_pages=limits.num_pages,
        page_size=PAGE_SIZE,
        max_request_tokens=max_request_tokens(limits),
        max_num_seqs=limits.max_num_seqs,
        max_choices=limits.max_num_seqs + config.max_queue,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        weight_bytes=weight_bytes,
        kernels=config.kernels,
    )


def expand(
    prompt_token_ids: list[int],
    params: SamplingParams,
    info: EngineInfo,
    priority: int = 0,
    cache_salt: str | None = None,
    pooling: Pooling | None = None,
    request_id: str | None = None,
) -> list[Request]:
    """One Request a choice. Their ids begin with `request_id`, so that logs can be searched for it,
    and are new even if two clients send the same one.

    Raises:
        InvalidRequest: a parameter is out of range or the prompt is not for this model. What the
            KV cache cannot hold is refused by the engine itself (`sched.admission`).
    """
    check_sampling(params, info.vocab_size)
    check_prompt(prompt_token_ids, info.vocab_size, info.max_model_len, "prompt", params.max_tokens)
    for text in params.stop:
        _check_text("stop", text)
    _check_text("cache_salt", cache_salt or "")
    unique = f"{request_id or 'req'}.{uuid.uuid4().hex}"
    now = time.time()
    return [
        Request(
            id=f"{unique}-{choice}",
            prompt_token_ids=prompt_token_ids,
            params=params,
            choice=choice,
            priority=priority,
            cache_salt=cache_salt,
            arrival_time=now,
            pooling=pooling,
        )
        for choice in range(params.n)
    ]


def _check_text(param: str, text: str) -> None:
    """JSON can spell half a surrogate pair, which no message and no hash can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{param} is not valid Unicode (a lone surrogate)", param=param
        ) from error
