"""The engine's own door: what can never run is refused at once, before it waits for anything.

The API checks the same things with the same functions; this door holds for every way in.
"""

from __future__ import annotations

from stoker.core.config import Limits
from stoker.core.errors import ExceedsCapacity, InvalidRequest
from stoker.core.request import Request
from stoker.core.validate import check_prompt, check_sampling


def max_request_tokens(limits: Limits) -> int:
    """The longest prompt + output that fits the pool when it runs alone; at most max_model_len."""

    def fits(num_tokens: int) -> bool:
        needed = limits.kv.pages_needed(num_tokens, limits.max_num_batched_tokens)
        return needed <= limits.num_pages

    low, high = 0, limits.max_model_len  # fits(low), and not fits(anything above high)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


class Admission:
    """Checks of one request against the engine's limits."""

    def __init__(self, limits: Limits) -> None:
        self._vocab_size = limits.vocab_size
        self._max_model_len = limits.max_model_len
        self._capacity = max_request_tokens(limits)

    def admit(self, request: Request) -> int:
        """The length of prompt + output at which the request's output must end.

        An explicit `max_tokens` beyond the context is cut to it; without one the output may fill
        what is left of the context or of the pool, whichever ends first. So whatever passes here
        can run to its end when it runs alone.

        Raises:
            InvalidRequest, ContextLengthExceeded: see core.validate.
            ExceedsCapacity: prompt + max_tokens do not fit the pool; names both numbers.
        """
        params, num_prompt = request.params, len(request.prompt_token_ids)
        check_prompt(
            request.prompt_token_ids,
            self._vocab_size,
            self._max_model_len,
            "prompt",
            params.max_tokens,
        )
        check_sampling(params, self._vocab_size)
        if request.pooling is not None and params.max_tokens != 0:
            raise InvalidRequest(
                f"max_tokens is {params.max_tokens}, but a request for an embedding draws none",
                param="max_tokens",
            )
        if not 0 <= request.choice < params.n:
            raise InvalidRequest(
                f"choice is {request.choice}, but n is {params.n}: choices count from 0", param="n"
            )
        if params.max_tokens is None:
            wanted = num_prompt + max(1, params.min_tokens)
            most = min(self._max_model_len, self._capacity)
        else:
            wanted = most = num_prompt + params.max_tokens
        if min(wanted, self._max_model_len) > self._capacity:
            raise ExceedsCapacity(
                f"The prompt and the answer need {min(wanted, self._max_model_len)} tokens of KV "
                f"cache ({num_prompt} in the prompt), but the cache holds at most "
                f"{self._capacity}. Shorten the prompt or lower max_tokens.",
                param="prompt" if num_prompt >= self._capacity else "max_tokens",
            )
        return min(most, self._max_model_len)
