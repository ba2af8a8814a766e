"""One .safetensors file, mapped: names, shapes and NumPy views, nothing copied.

The `safetensors` package checks the file (header, overlaps, holes, length). Its NumPy interface
copies and has no bf16, so the views are made here, from the offsets in the header: 8 bytes of
little-endian length, then JSON, then the tensors (format: huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from stoker.core.errors import CheckpointError
from stoker.weights.formats import FloatFormat, FloatWeight

_FORMATS: dict[str, tuple[FloatFormat, np.dtype]] = {
    "F32": ("f32", np.dtype("<f4")),
    "F16": ("f16", np.dtype("<f2")),
    "BF16": ("bf16", np.dtype("<u2")),
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor's place in a file; `start` and `end` count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class SafetensorsFile:
    """header: the file's first bytes up to the tensors; body: the rest, mapped."""

    def __init__(self, path: Path) -> None:
        """CheckpointError if the file is missing, truncated or not a safetensors file."""
        try:
            # Opening validates; the handle itself is not needed.
            safe_open(path, framework="np")
            data = np.memmap(path, np.uint8, "r")
            split = 8 + int.from_bytes(data[:8].tobytes(), "little")
            self.header = data[:split].tobytes()
            entries = json.loads(self.header[8:])
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointError(
                f"{path} is truncated or not a safetensors file: {error}"
            ) from error
        self.path = path
        self.body: NDArray[np.uint8] = data[split:]
        self.tensors = {
            name: StoredTensor(entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in entries.items()
            if name != "__metadata__"
        }

    def weight(self, name: str) -> FloatWeight:
        """A read-only view. CheckpointError for a dtype other than F32, F16 and BF16."""
        stored = self.tensors[name]
        if stored.dtype not in _FORMATS:
            raise CheckpointError(
                f"{self.path.name}: tensor {name} is stored as {stored.dtype}; "
                f"supported are {', '.join(_FORMATS)}"
            )
        format_, dtype = _FORMATS[stored.dtype]
        flat = self.body[stored.start : stored.end]
        if flat.ctypes.data % dtype.itemsize:
            flat = flat.copy()  # a header of odd length misaligns everything behind it
        return FloatWeight(format_, flat.view(dtype).reshape(stored.shape))
