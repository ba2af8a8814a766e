"""One GGUF file, mapped: metadata, and where each tensor's blocks lie.

Why not gguf.GGUFReader: it makes several NumPy views of every element of every string array, which
takes two seconds for a vocabulary of 49 thousand and over ten for 262 thousand. Here a string costs
one slice. Type numbers and block sizes still come from the package. Format: ggml/docs/gguf.md,
versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGMLQuantizationType,
    GGUFValueType,
)
from numpy.typing import NDArray

from stoker.core.errors import CheckpointError

_VERSIONS = (2, 3)
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_SCALARS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.FLOAT64: "<f8",
    GGUFValueType.BOOL: "?",
}


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """shape: as NumPy has it, rows first. start: bytes from the first byte of the file."""

    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    start: int
    nbytes: int


class GGUFFile:
    """metadata: plain Python values; tensors: by GGUF name; header: bytes before those, mapped."""

    def __init__(self, path: Path) -> None:
        """CheckpointError if the file is missing, truncated or not GGUF of a known version."""
        self.path = path
        try:
            self.data: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
            # Slices of a mapping are bytes, and cheaper than slices of an array.
            with path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        with mapped:
            try:
                self.metadata, self.tensors, start = _parse(_Cursor(mapped))
            except (struct.error, ValueError, OverflowError, RecursionError) as error:
                raise CheckpointError(
                    f"{path} is not a readable GGUF file, or is truncated: {error}"
                ) from error
        self.header = self.data[:start]
        for name, tensor in self.tensors.items():
            if tensor.start + tensor.nbytes > self.data.size:
                raise CheckpointError(
                    f"{path} is truncated: tensor {name} ends at byte "
                    f"{tensor.start + tensor.nbytes}, the file at {self.data.size}"
                )

    def rows(self, name: str) -> NDArray[np.uint8]:
        """The tensor's blocks as uint8 [rows, bytes per row], a view; a vector is one row."""
        tensor = self.tensors[name]
        rows = prod(tensor.shape[:-1])
        raw = self.data[tensor.start : tensor.start + tensor.nbytes]
        return raw.reshape(rows, tensor.nbytes // rows)


class _Cursor:
    """Reads forward through the mapped header."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def u32(self) -> int:
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += 4
        return int(value)

    def u64(self) -> int:
        (value,) = _U64.unpack_from(self.data, self.at)
        self.at += 8
        return int(value)

    def name(self) -> str:
        (name,) = self.strings(1)
        if not name.isprintable():
            raise ValueError(f"{name!r} is no name")
        return name

    def strings(self, count: int) -> list[str]:
        # The one loop that runs once a token: locals only.
        data, at, unpack, found = self.data, self.at, _U64.unpack_from, []
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0]
            found.append(data[start:at].decode("utf-8", "replace"))
        if at > len(data):
            raise ValueError("a string runs past the end of the file")
        self.at = at
        return found

    def numbers(self, dtype: str, count: int) -> list[Any]:
        size = np.dtype(dtype).itemsize * count
        raw = self.data[self.at : self.at + size]
        if len(raw) < size:
            raise ValueError("an array runs past the end of the file")
        self.at += size
        return list(np.frombuffer(raw, dtype).tolist())

    def values(self, kind: GGUFValueType, count: int) -> list[Any]:
        if kind == GGUFValueType.STRING:
            return self.strings(count)
        if kind in _SCALARS:
            return self.numbers(_SCALARS[kind], count)
        return [self.values(GGUFValueType(self.u32()), self.u64()) for _ in range(count)]


def _parse(cursor: _Cursor) -> tuple[dict[str, Any], dict[str, GGUFTensor], int]:
    """Metadata, tensors, and the byte where tensor data begins."""
    if cursor.u32() != GGUF_MAGIC:
        raise ValueError("it does not begin with GGUF")
    version = cursor.u32()
    if version not in _VERSIONS:
        raise ValueError(f"version {version} is not one of {_VERSIONS}, or the file is big-endian")
    num_tensors, num_fields = cursor.u64(), cursor.u64()
    metadata = {}
    for _ in range(num_fields):
        key = cursor.name()
        (metadata[key],) = cursor.values(GGUFValueType(cursor.u32()), 1)
    entries = {}
    for _ in range(num_tensors):
        name = cursor.name()
        shape = tuple(reversed(cursor.numbers("<u8", cursor.u32())))
        entries[name] = (shape, _kind(name, cursor.u32()), cursor.u64())
    alignment = metadata.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ValueError(f"general.alignment is {alignment!r}")
    start = -(-cursor.at // alignment) * alignment
    return metadata, {name: _tensor(name, *entry, start) for name, entry in entries.items()}, start


def _kind(name: str, number: int) -> GGMLQuantizationType:
    try:
        return GGMLQuantizationType(number)
    except ValueError as error:
        raise ValueError(f"tensor {name} has the unknown type {number}") from error


def _tensor(
    name: str, shape: tuple[int, ...], kind: GGMLQuantizationType, offset: int, base: int
) -> GGUFTensor:
    block, block_bytes = GGML_QUANT_SIZES[kind]
    if not shape or min(shape) < 1 or shape[-1] % block:
        raise ValueError(f"tensor {name} of shape {list(shape)} cannot be {kind.name}")
    return GGUFTensor(kind, shape, base + offset, prod(shape) // block * block_bytes)
