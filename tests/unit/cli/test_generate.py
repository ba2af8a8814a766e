"""Where `stoker generate` takes its prompts from."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from stoker.cli.main import main
from tests.support.checkpoints import make_tiny


def test_stdin_gives_a_prompt_for_each_line_that_is_not_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tiny("llama", tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("The quick\n\n  \nOnce upon\n"))
    options = ["--model", str(tmp_path), "--kernels", "reference", "--max-tokens", "1", "--json"]
    assert main(["generate", "A page", "-", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        '{"prompt": "A page"',
        '{"prompt": "The quick"',
        '{"prompt": "Once upon"',
    ]


def test_no_prompt_at_all_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert main(["generate", "-"]) == 2
    assert "no prompt" in capsys.readouterr().err
