"""Small by law: no source file over 500 lines, no Python function over 60."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE = 500
MAX_FUNCTION = 60
PYTHON = sorted((ROOT / "src").rglob("*.py"))
NATIVE = sorted(p for p in (ROOT / "csrc").rglob("*") if p.suffix in {".cpp", ".h", ".hpp"})
TESTS = sorted(p for d in ("tests", "benchmarks", "examples") for p in (ROOT / d).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function's name and the lines of its body, the docstring not counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            yield node.name, length


@pytest.mark.parametrize("path", PYTHON + NATIVE + TESTS, ids=name)
def test_file_is_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_FILE, f"{name(path)} has {lines} lines, at most {MAX_FILE} are allowed"


@pytest.mark.parametrize("path", PYTHON + TESTS, ids=name)
def test_functions_are_short(path: Path) -> None:
    long = {f: n for f, n in functions(path) if n > MAX_FUNCTION}
    assert not long, f"{name(path)}: functions over {MAX_FUNCTION} lines: {long}"


def test_the_median_file_is_small() -> None:
    """One idea a file: half of the files stay under 150 lines."""
    sizes = sorted(len(p.read_text().splitlines()) for p in PYTHON)
    assert sizes[len(sizes) // 2] <= 150, sizes
