"""Packed weights kept in a file: the same bytes from there, and no harm from a file that is not."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from stoker.kernels import packed_file
from stoker.kernels.cpu import CpuOps, available_isas
from stoker.kernels.ops import Tensors
from stoker.kernels.packed_cache import CachedTensors
from stoker.kernels.packed_file import bytes_of
from stoker.kernels.packing import CheckpointTensors
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from tests.support.checkpoints import write_gguf

OPS = CpuOps(2)
FORMATS = ("Q4_0", "Q4_1", "Q8_0", "Q5_1", "F16", "BF16", "F32")
MODULES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
WRITE = """
import os, sys
from pathlib import Path
from stoker.kernels import packed_file
from stoker.kernels.cpu import CpuOps
from stoker.kernels.packed_cache import CachedTensors
from stoker.weights.checkpoint import open_checkpoint
whole = packed_file._write
def half(file, memory):
    whole(file, memory[: len(memory) // 2])
    print("half", flush=True)
    sys.stdin.read()
packed_file._write = half
with CachedTensors(Path(sys.argv[2]), open_checkpoint(sys.argv[1]), CpuOps(1)) as cache:
    cache.packed("model.embed_tokens.weight")
cache.writer.join()
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    kinds = {f"blk.0.{name}.weight": kind for name, kind in zip(MODULES, FORMATS, strict=True)}
    # The embedding is larger than a piece.
    write_gguf(path, quant={**kinds, "token_embd.weight": "F32"}, hidden=1024, layers=1)
    return open_checkpoint(str(path))


def load(folder: Path, checkpoint: Checkpoint, ops: CpuOps = OPS) -> tuple[dict[str, bytes], bool]:
    """All tensors, and whether they came from the cache; what it lacked is written."""
    with CachedTensors(folder, checkpoint, ops) as cache:
        tensors = everything(cache, checkpoint)
    if cache.writer is not None:
        cache.writer.join()
    return tensors, cache.complete


def everything(source: Tensors, checkpoint: Checkpoint) -> dict[str, bytes]:
    vectors = {name for name in checkpoint.names() if len(checkpoint.weight(name).shape) == 1}
    return {
        name: bytes_of(source.vector(name) if name in vectors else source.packed(name)).tobytes()
        for name in checkpoint.names()
    }


def the_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def packed(checkpoint: Checkpoint) -> dict[str, bytes]:
    return everything(CheckpointTensors(checkpoint, OPS), checkpoint)


def test_a_second_start_gets_the_same_bytes_from_the_file(
    tmp_path: Path, checkpoint: Checkpoint, packed: dict[str, bytes]
) -> None:
    folder = tmp_path / "not" / "there"
    assert load(folder, checkpoint) == (packed, False)
    assert load(folder, checkpoint) == (packed, True)
    assert the_file(folder).suffix == ".packed"


def _cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


def _flip(at: float) -> Any:
    def flip(data: bytearray) -> None:
        data[int(at * (len(data) - 1))] ^= 1

    return flip


@pytest.mark.parametrize(
    "damage", [_cut, bytearray.clear, *map(_flip, (0.0, 0.3, 0.7, 0.997, 0.9999, 1.0))]
)
def test_a_damaged_file_is_a_warning_and_written_again(
    damage: Any,
    tmp_path: Path,
    checkpoint: Checkpoint,
    packed: dict[str, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    load(tmp_path, checkpoint)
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    assert load(tmp_path, checkpoint) == (packed, False)
    assert path.name in caplog.text
    assert load(tmp_path, checkpoint) == (packed, True)


def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path,
    checkpoint: Checkpoint,
    packed: dict[str, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").touch()
    assert load(tmp_path / "file" / "cache", checkpoint) == (packed, False)
    assert "not kept" in caplog.text


def test_a_disk_that_runs_full_keeps_nothing(
    tmp_path: Path,
    checkpoint: Checkpoint,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(file: int, memory: memoryview) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(packed_file, "_write", full)
        load(tmp_path, checkpoint)
    assert "No space left" in caplog.text and not list(tmp_path.iterdir())
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2**40, 2**40, 2**20))
    load(tmp_path, checkpoint)
    assert "has 1 MiB left" in caplog.text and not list(tmp_path.iterdir())


def test_a_file_that_another_process_writes_is_left_to_it(
    tmp_path: Path, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    load(tmp_path, checkpoint)
    path = the_file(tmp_path)
    part = path.rename(path.with_suffix(".part"))
    before = part.read_bytes()
    caplog.set_level(logging.WARNING)
    with part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        load(tmp_path, checkpoint)
    assert the_file(tmp_path) == part and part.read_bytes() == before
    assert not caplog.records


def test_a_writer_that_is_killed_leaves_no_file_and_no_lock(
    tmp_path: Path, checkpoint: Checkpoint, packed: dict[str, bytes]
) -> None:
    command = [sys.executable, "-c", WRITE, checkpoint.path, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"half\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert the_file(tmp_path).suffix == ".part"
    assert load(tmp_path, checkpoint) == (packed, False)
    assert load(tmp_path, checkpoint) == (packed, True)
    assert the_file(tmp_path).suffix == ".packed"


def test_what_another_version_packed_is_neither_used_nor_kept(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    load(tmp_path, checkpoint, CpuOps(1, "portable"))
    old = the_file(tmp_path)
    if available_isas() == ("portable",):
        pytest.skip("this CPU has one instruction set")
    assert load(tmp_path, checkpoint)[1] is False
    assert the_file(tmp_path) != old


def test_a_change_that_no_sample_of_the_identity_sees_is_another_model(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    model = tmp_path / "model.gguf"
    shutil.copy2(checkpoint.path, model)
    load(tmp_path / "cache", open_checkpoint(str(model)))
    with model.open("r+b") as file:
        file.seek(-6000, os.SEEK_END)  # between two samples
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    changed = open_checkpoint(str(model))
    assert changed.revision == checkpoint.revision
    tensors, complete = load(tmp_path / "cache", changed)
    assert not complete
    assert tensors == load(tmp_path / "empty", changed)[0]
