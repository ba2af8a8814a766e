"""Packed weights of a model kept from one start to the next, in one file a model.

A file is named after the content of the checkpoint and a hash of what made it: the code that packs,
and the size and time of every file read. So neither another checkpoint in the old place, nor one
changed where its identity takes no sample, nor another layout is taken for the same, and nobody has
to count versions. It appears whole, by renaming. Whatever is wrong with it or with the folder is a
warning, and the weights come from the checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from xxhash import xxh3_128

from stoker import weights
from stoker.kernels import _native, cpu
from stoker.kernels.cpu import CpuOps
from stoker.kernels.ops import Array, PackedWeight
from stoker.kernels.packed_file import (
    DamagedFile,
    PackedFile,
    Reading,
    Tensor,
    bytes_of,
    write_packed,
)
from stoker.kernels.packing import CheckpointTensors
from stoker.weights.contract import Checkpoint

logger = logging.getLogger(__name__)

READERS = 4
"""Threads that read. Two reach what a fast disk gives; on a slow one more are no loss."""


class CachedTensors:
    """`ops.Tensors` from the cache's file where it has them, else from the checkpoint.

    A context: reading starts with it; where the file lacked a tensor, leaving it starts a thread
    that writes the file anew.
    """

    def __init__(self, folder: Path, checkpoint: Checkpoint, ops: CpuOps) -> None:
        self.path = folder / f"{checkpoint.revision}-{_maker(checkpoint, ops)}.packed"
        self._ops = ops
        self._source = CheckpointTensors(checkpoint, ops)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="packed-cache")
        self._read = self._begin()
        self._taken: dict[str, Tensor] = {}
        self.complete = True
        """Whether every tensor so far came from the file."""
        self.writer: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._readers.shutdown(cancel_futures=True)
        if kind is None and not self.complete:
            # Nothing waits for it: a process that ends first leaves the work to the next one.
            self.writer = threading.Thread(target=self._write, name="packed-cache", daemon=True)
            self.writer.start()

    def packed(self, name: str) -> PackedWeight:
        return self._take(name, self._source.packed)

    def vector(self, name: str) -> Array:
        return self._take(name, self._source.vector)

    def _take(self, name: str, make: Callable[[str], Tensor]) -> Tensor:
        try:
            tensor = self._read.pop(name).result()
        except (KeyError, OSError, DamagedFile) as error:
            if not isinstance(error, KeyError):
                logger.warning("%s: %s is packed again: %s", self.path, name, error)
            self.complete = False
            tensor = make(name)
        self._taken[name] = tensor
        return tensor

    def _begin(self) -> dict[str, Reading]:
        try:
            return PackedFile(self.path).read(self._ops, self._readers)
        except FileNotFoundError:
            return {}
        except (OSError, DamagedFile) as error:
            logger.warning("%s is not used: %s", self.path, error)
            return {}

    def _write(self) -> None:
        try:
            self._write_whole()
        except OSError as error:
            logger.warning("packed weights are not kept: %s", error)

    def _write_whole(self) -> None:
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True)
        size = sum(len(bytes_of(tensor)) for tensor in self._taken.values())
        free = shutil.disk_usage(folder).free
        if free < 2 * size:  # a cache is not worth the last of somebody's disk
            logger.warning(
                "packed weights are not kept: they take %d MiB, and %s has %d MiB left",
                size >> 20,
                folder,
                free >> 20,
            )
            return
        part = self.path.with_suffix(".part")
        with _locked(part) as file:
            if file is None:
                return
            write_packed(file, self._taken)
            os.fsync(file)
            part.rename(self.path)
        for other in folder.glob(f"{self.path.name.partition('-')[0]}-*"):
            if other != self.path:  # the same model, packed by another version
                other.unlink(missing_ok=True)


def _maker(checkpoint: Checkpoint, ops: CpuOps) -> str:
    """32 hex digits that differ where a weight might be packed differently: of the instruction set,
    the library, every line that converts a checkpoint's tensors, and the checkpoint's files as they
    lie there."""
    digest = xxh3_128(ops.isa.encode())
    readers = sorted(Path(weights.__file__).parent.glob("*.py"))
    for path in (*readers, Path(cpu.__file__), Path(_native.__file__)):
        digest.update(path.read_bytes())
    files = [checkpoint.path]
    if checkpoint.path.is_dir():
        files = sorted(checkpoint.path.glob("*.safetensors"))
    for file in files:
        stat = file.stat()
        digest.update(f"{stat.st_size} {stat.st_mtime_ns} ".encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """A new file of this name to write, or None where another process is at it.

    A process that is killed loses its lock, and the next one writes over what it left.
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had the lock may have given the file its final name after it was opened here.
            mine = os.path.samestat(os.fstat(file), os.stat(path))
        except (BlockingIOError, FileNotFoundError):
            mine = False
        if not mine:
            yield None
            return
        os.ftruncate(file, 0)
        try:
            yield file
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    finally:
        os.close(file)
