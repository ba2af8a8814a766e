"""A file of packed weights: written once, read back into the memory that kernels compute on.

    piece │ piece │ … │ index │ tail
    ──────┴───────┴───┴───────┴─────
    A weight's bytes lie in pieces of at most a mebibyte, one behind the other. The index (msgpack)
    says where each weight is and has a checksum (xxh3, 64 bits) of every piece; the tail says where
    the index is and has its checksum.

Read, not mapped: file pages are small, and weights on huge pages decode faster. A piece is checked
while it is in the cache of the core that read it. What this finds: a file that was cut off, written
half, or changed anywhere by chance. It does not defend against somebody who forges the checksums.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from stoker.kernels.cpu import CpuOps, Layout, address_of, layout_of
from stoker.kernels.ops import PackedWeight

Vector = NDArray[np.float32]
Tensor = PackedWeight | Vector

_MAGIC = b"stokpack"
_TAIL = struct.Struct("<8sQQQ")
"""Magic, start and length of the index, its checksum."""
_PIECE = 1 << 20


class DamagedFile(Exception):
    """The file is not what was written."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One tensor. layout: None for a float32 vector."""

    layout: Layout | None
    start: int
    nbytes: int
    sums: list[int]


@dataclass(frozen=True, slots=True)
class Reading:
    """A tensor that is on its way from the file."""

    tensor: Tensor
    pieces: list[Future[None]]

    def result(self) -> Tensor:
        """The tensor when it is whole. OSError or DamagedFile where it is not to be had."""
        for piece in self.pieces:
            piece.result()
        return self.tensor


class PackedFile:
    """An open file, to read."""

    def __init__(self, path: Path) -> None:
        """OSError where it cannot be read, DamagedFile where its index is damaged."""
        self._open = path.open("rb", buffering=0)  # closed when nobody refers to it any more
        self._file = self._open.fileno()
        self._entries = self._index()

    def read(self, ops: CpuOps, readers: Executor) -> dict[str, Reading]:
        """Begin to read every tensor: piece by piece in the file's order, which is the fastest."""
        return {name: self._read(entry, ops, readers) for name, entry in self._entries.items()}

    def _read(self, entry: Entry, ops: CpuOps, readers: Executor) -> Reading:
        tensor: Tensor
        if entry.layout is None:
            tensor = np.empty(entry.nbytes // 4, np.float32)
        else:
            tensor = ops.unfilled(entry.layout)
        memory = bytes_of(tensor)
        if len(memory) != entry.nbytes or -(-len(memory) // _PIECE) != len(entry.sums):
            raise DamagedFile(f"a tensor has {entry.nbytes} bytes, but needs {len(memory)}")
        pieces = zip(_pieces(memory), entry.sums, strict=True)
        return Reading(
            tensor,
            [
                readers.submit(self._fill, piece, entry.start + number * _PIECE, wanted)
                for number, (piece, wanted) in enumerate(pieces)
            ],
        )

    def _fill(self, piece: memoryview, at: int, wanted: int) -> None:
        if os.preadv(self._file, [piece], at) != len(piece):
            raise DamagedFile("it is cut off")
        if xxh3_64_intdigest(piece) != wanted:
            raise DamagedFile(f"the checksum of bytes {at} to {at + len(piece)} is wrong")

    def _index(self) -> dict[str, Entry]:
        end = os.fstat(self._file).st_size - _TAIL.size
        if end < 0:
            raise DamagedFile("it is cut off")
        magic, start, length, wanted = _TAIL.unpack(os.pread(self._file, _TAIL.size, end))
        if magic != _MAGIC or start + length != end:
            raise DamagedFile("it does not end as it should")
        index = os.pread(self._file, length, start)
        if xxh3_64_intdigest(index) != wanted:
            raise DamagedFile("the checksum of its index is wrong")
        try:
            return msgspec.msgpack.decode(index, type=dict[str, Entry])
        except msgspec.DecodeError as error:
            raise DamagedFile(f"its index cannot be read: {error}") from error


def write_packed(file: int, tensors: Mapping[str, Tensor]) -> None:
    """Write a whole file to a descriptor at its first byte. OSError where that is not possible."""
    entries: dict[str, Entry] = {}
    at = 0
    for name, tensor in tensors.items():
        memory = bytes_of(tensor)
        layout = None if isinstance(tensor, np.ndarray) else layout_of(tensor)
        sums = []
        for piece in _pieces(memory):
            _write(file, piece)
            sums.append(xxh3_64_intdigest(piece))
        entries[name] = Entry(layout, at, len(memory), sums)
        at += len(memory)
    index = msgspec.msgpack.encode(entries)
    _write(file, memoryview(index))
    _write(file, memoryview(_TAIL.pack(_MAGIC, at, len(index), xxh3_64_intdigest(index))))


def bytes_of(tensor: Tensor) -> memoryview:
    """A tensor's own memory; valid as long as the tensor is."""
    if isinstance(tensor, np.ndarray):
        return tensor.data.cast("B")
    memory = (ctypes.c_uint8 * tensor.nbytes).from_address(address_of(tensor))
    return memoryview(memory).cast("B")


def _pieces(memory: memoryview) -> Iterator[memoryview]:
    return (memory[at : at + _PIECE] for at in range(0, len(memory), _PIECE))


def _write(file: int, memory: memoryview) -> None:
    while memory:
        memory = memory[os.write(file, memory) :]
