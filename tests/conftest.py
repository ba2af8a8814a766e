"""Options of the test suite, and the size table at its end."""

from __future__ import annotations

from collections import defaultdict
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
