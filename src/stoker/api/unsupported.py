"""Fields that clients know from OpenAI or vLLM and this release does not act on.

Ignoring a parameter gives an answer to another question, so each is refused by name, unless it has
the value that asks for nothing. Fields that never change an answer are in `NO_EFFECT`: they are
accepted with any value, because not acting on them is all there is to do.
"""

from __future__ import annotations

from typing import Any

from stoker.api.errors import unsupported as refuse
from stoker.core.errors import InvalidRequest

NO_EFFECT = frozenset(
    {
        "user",  # who asks: for the provider's records
        "safety_identifier",  # the same
        "metadata",  # the client's own labels of a stored answer
        "prompt_cache_key",  # a routing hint; one engine has nowhere else to route to
        "parallel_tool_calls",  # without tools there are no calls
    }
)

REASONS = {
    "best_of": "all choices that are drawn are returned, and n says how many",
    "suffix": "the models served here continue a text, they do not fill a gap in one",
}
"""What a client may do instead, or why it cannot be."""

# Field → values that ask for nothing. null always does.
_SHARED: dict[str, tuple[Any, ...]] = {
    "store": (False,),
    "service_tier": ("auto", "default"),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "best_of": (1,),
    "use_beam_search": (False,),
    "length_penalty": (1.0,),
    "spaces_between_special_tokens": (True,),
    "logits_processors": (),
    "kv_transfer_params": (),
    "vllm_xargs": (),
    "request_id": (),
}

_CHAT: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "audio": (),
    "modalities": (["text"],),
    "prediction": (),
    "reasoning_effort": (),
    "include_reasoning": (True,),
    "verbosity": (),
    "web_search_options": (),
    "prompt_cache_retention": (),
    "documents": (),
    "chat_template": (),
    "add_special_tokens": (False,),
    "echo": (False,),
    "continue_final_message": (False,),
    "mm_processor_kwargs": (),
}

_COMPLETION: dict[str, tuple[Any, ...]] = {
    "suffix": (),
    "prompt_embeds": (),
    "add_special_tokens": (True,),
}

EMBEDDING_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "messages": (),
    "add_special_tokens": (True,),
    "embed_dtype": ("float32",),
    "endianness": ("native", "little"),
    "request_id": (),
}

CHAT_UNSUPPORTED = _SHARED | _CHAT
COMPLETION_UNSUPPORTED = _SHARED | _COMPLETION


def strip(
    body: dict[str, Any], known: frozenset[str], unsupported: dict[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """The part of `body` to act on.

    Raises:
        InvalidRequest: names the first field that is unknown, or known and not supported.
    """
    kept = {}
    for name, value in body.items():
        if name in known:
            kept[name] = value
        elif name in unsupported:
            if value is not None and not any(_same(value, idle) for idle in unsupported[name]):
                raise refuse(name, reason=REASONS.get(name))
        elif name not in NO_EFFECT:
            shown = name if len(name) <= 80 else name[:80] + "…"
            raise InvalidRequest(f"Unknown field: {shown}", param=shown, code="unknown_parameter")
    return kept


def _same(value: Any, idle: Any) -> bool:
    """Equal, where true is not 1."""
    return isinstance(value, bool) == isinstance(idle, bool) and bool(value == idle)
