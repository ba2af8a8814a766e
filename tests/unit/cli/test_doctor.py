"""`stoker doctor` says what `stoker serve` would."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.main import main
from tests.support.checkpoints import make_tiny


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "a [bold]model"
    make_tiny("llama", path)
    return path


def test_a_model_that_can_be_served(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(folder), "--kernels", "reference"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["name", "a", "[bold]model"] in rows
    assert ["chat", "yes"] in rows
    assert ["context", "1,024", "tokens"] in rows


def test_the_instruction_set_that_was_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor", str(folder), "--isa", "portable"]) == 0
    assert "uses portable (has " in capsys.readouterr().out
    monkeypatch.setattr("stoker.kernels.cpu.available_isas", lambda: ("avx2", "portable"))
    assert main(["doctor", str(folder), "--isa", "vnni"]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert "isa is vnni, but this CPU and build have only avx2, portable" in shown


def test_a_model_without_a_tokenizer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokenizer.json").unlink()
    assert main(["doctor", str(folder)]) == 2
    assert "tokenizer.json" in capsys.readouterr().out
