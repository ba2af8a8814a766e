"""Peers are found whole or not at all, and one that cannot be made is a line, not a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import find_or_build
from benchmarks.peers.cache import cache_folder
from benchmarks.peers.find_or_build import PeerMissing, Source

PEER = Source(
    name="peer",
    package="no-such-peer",
    tree="tree",
    programs=("one", "two"),
    extra_files={"cmake/info.cmake": "set(X 1)\n"},
)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_folder("peer")


def fake_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, script: str) -> Path:
    path = tmp_path / "programs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return path


def test_a_peer_is_found_only_with_all_its_programs(cache: Path) -> None:
    programs = cache / "build" / "bin"
    programs.mkdir(parents=True)
    (programs / "one").touch()
    assert find_or_build.find(PEER) is None
    (programs / "two").touch()
    assert find_or_build.find(PEER) == programs
    assert find_or_build.find_or_build(PEER, jobs=1) == programs


def test_a_failed_download_is_a_missing_peer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = fake_program(monkeypatch, tmp_path, "python", "exit 3")
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(PeerMissing, match=r"peer: .* ended with 3"):
        find_or_build.find_or_build(PEER, jobs=1)


def test_the_build_gets_the_left_out_files_and_its_targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    tree = cache / "source" / "tree"
    tree.mkdir(parents=True)
    (tree / "CMakeLists.txt").touch()
    make = f"mkdir -p {cache}/build/bin; touch {cache}/build/bin/one {cache}/build/bin/two"
    fake_program(monkeypatch, tmp_path, "cmake", f'echo "$@" >> {tmp_path}/calls; {make}')
    assert find_or_build.find_or_build(PEER, jobs=3) == cache / "build" / "bin"
    assert (tree / "cmake/info.cmake").read_text() == "set(X 1)\n"
    configure, build = (tmp_path / "calls").read_text().splitlines()
    assert "-DCMAKE_BUILD_TYPE=Release" in configure and "-DGGML_NATIVE=ON" in configure
    assert build.endswith("--parallel 3 --target one two")
