"""Stoker: an open inference engine for large language models.

`from stoker import LLM, SamplingParams` is the Python API, with `EngineConfig` for `LLM(config=…)`
and `StokerError` for what it raises. Names load on first use, so that `import stoker` alone brings
no engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.core.config import EngineConfig
    from stoker.core.errors import StokerError
    from stoker.core.request import SamplingParams
    from stoker.engine.llm import LLM

__all__ = ["LLM", "EngineConfig", "SamplingParams", "StokerError", "__version__"]

_HOME = {
    "LLM": "stoker.engine.llm",
    "EngineConfig": "stoker.core.config",
    "SamplingParams": "stoker.core.request",
    "StokerError": "stoker.core.errors",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes longer than all else here

        return version("stoker")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'stoker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
