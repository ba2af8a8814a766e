"""Reading untrusted settings: a getter gives a value of the type asked for, or says what is wrong.

Used for config.json and for GGUF metadata; `where` names the file in the message.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.core.errors import CheckpointError, InvalidRequest
from stoker.core.model import GenerationDefaults
from stoker.core.request import SamplingParams
from stoker.core.validate import check_sampling

MAX_INTEGER = 2**24
"""No model has so many layers, rows or positions; loops and tables grow with these numbers."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping with its origin. A value of None (JSON null) counts as absent."""

    values: Mapping[str, Any]
    where: str

    def raw(self, key: str) -> Any:
        return self.values.get(key)

    def integer(self, key: str, default: int | None = None) -> int:
        """A positive whole number, at most MAX_INTEGER."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not a positive whole number")
        if value > MAX_INTEGER:
            raise CheckpointError(f"{self.where}: {key} is {value:.3g}, more than any model has")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above zero."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not a number")
        if not 0 < value < float("inf"):
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not a number above zero")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str):
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not a string")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not true or false")
        return value

    def items(self, key: str) -> list[Any]:
        """A list, empty where there is none."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not a list")
        return value

    def section(self, key: str) -> Fields | None:
        """A nested object, or None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise CheckpointError(f"{self.where}: {key} is {value!r}, not an object")
        return Fields(value, f"{self.where}: {key}")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.where}: {key} is missing")
        return value


def token_ids(value: Any) -> list[int]:
    """The ids in a field that may hold one, a list of them, or nothing."""
    found = value if isinstance(value, list | tuple) else [value]
    return [x for x in found if isinstance(x, int) and not isinstance(x, bool) and x >= 0]


def sampling_defaults(values: Mapping[str, Any], eos: list[int]) -> GenerationDefaults:
    """The sampling parameters among `values`, by their names here, and the ids that end an answer.

    CheckpointError for a value that no request may have: it would fail every one that sends none.
    """
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    chosen = {name: values[name] for name in names if _is_number(values.get(name))}
    if "top_k" in chosen:
        chosen["top_k"] = max(0, int(chosen["top_k"]))  # -1 keeps all, as 0 does here
    try:
        check_sampling(SamplingParams(**chosen), vocab_size=0)
    except (InvalidRequest, OverflowError) as error:
        raise CheckpointError(f"the model's sampling defaults cannot be used: {error}") from error
    return GenerationDefaults(**chosen, eos_token_ids=tuple(dict.fromkeys(eos)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
