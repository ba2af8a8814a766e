"""The command itself: deliberate errors and Ctrl-C, seen from a shell."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from stoker.cli.main import MAX_MESSAGE, main
from stoker.core.errors import CheckpointError


def _import_raises(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_it(_: str) -> ModuleType:
        raise error

    monkeypatch.setattr(importlib, "import_module", raise_it)


def test_an_error_is_one_line_of_bounded_length(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _import_raises(CheckpointError("bad\nfile: " + "x" * 100_000), monkeypatch)
    assert main(["serve"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("stoker: bad file: xxx")
    assert shown.count("\n") == 1
    assert len(shown) < MAX_MESSAGE + 20


def test_ctrl_c_during_imports_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _import_raises(KeyboardInterrupt(), monkeypatch)
    assert main(["serve"]) == 130
    assert capsys.readouterr().err == ""
