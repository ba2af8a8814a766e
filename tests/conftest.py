"""Options of the test suite, and the size table at its end."""

from __future__ import annotations

import sys
from collections import defaultdict
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak-seconds",
        type=float,
        default=8.0,
        help="how long each soak test of tests/system runs (`make soak`: 60)",
    )
    parser.addoption(
        "--native",
        type=Path,
        help="a build folder of csrc/ whose extension is tested instead of the installed one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Put the extension of `--native` where the package looks first."""
    folder: Path | None = config.getoption("--native")
    if folder is None:
        return
    name = "stoker.kernels._native"
    (path,) = folder.glob("_native*.so")
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def pytest_report_header() -> list[str]:
    native = sys.modules.get("stoker.kernels._native")
    return [] if native is None else [f"native extension: {native.__file__}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the house weighs: a room that grows is seen before it is over the limit."""
    rooms: dict[str, list[int]] = defaultdict(list)
    for pattern in ("src/stoker/**/*.py", "csrc/**/*.cpp", "csrc/**/*.h", "tests/**/*.py"):
        for path in ROOT.glob(pattern):
            parts = path.relative_to(ROOT).parts
            room = parts[2] if parts[0] == "src" and len(parts) > 3 else parts[0]
            rooms[room].append(len(path.read_text().splitlines()))
    terminalreporter.section("lines")
    for room, sizes in sorted(rooms.items(), key=lambda entry: -sum(entry[1])):
        terminalreporter.write_line(
            f"{room:<14}{len(sizes):4} files {sum(sizes):6} lines, "
            f"median {sorted(sizes)[len(sizes) // 2]:4}, largest {max(sizes):4}"
        )
