"""Every option has a doc line, is a flag, is listed in docs/config.md and is read somewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from stoker.core.config import EngineConfig, ServeConfig

ROOT = Path(__file__).parents[2]
FIELDS = [
    pytest.param(config, field, id=f"{config.__name__}.{field.name}")
    for config in (EngineConfig, ServeConfig)
    for field in dataclasses.fields(config)
]


@pytest.mark.parametrize(("config", "field"), FIELDS)
def test_option_is_documented_and_used(config: type, field: dataclasses.Field[object]) -> None:
    doc = field.metadata.get("doc", "")
    assert doc, f"{field.name} has no doc line"
    page = (ROOT / "docs" / "config.md").read_text()
    assert f"`--{field.name.replace('_', '-')}`" in page or f"`{field.name}`" in page
    readers = [
        path
        for path in (ROOT / "src").rglob("*.py")
        if f".{field.name}" in path.read_text() or f'"{field.name}"' in path.read_text()
    ]
    assert readers, f"nothing reads {field.name}"


def test_no_module_reads_undocumented_environment_variables() -> None:
    page = (ROOT / "docs" / "config.md").read_text()
    for path in (ROOT / "src").rglob("*.py"):
        for line in path.read_text().splitlines():
            if "os.environ" in line or "getenv(" in line:
                names = [word for word in line.split('"') if word.isupper()]
                assert names and all(f"`{n}`" in page for n in names), (
                    f"{path.name}: {line.strip()}"
                )
