"""Options of the test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak-seconds",
        type=float,
        default=8.0,
        help="how long each soak test of tests/system runs (`make soak`: 60)",
    )
