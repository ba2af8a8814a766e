"""What `stoker serve` says once it is up."""

from __future__ import annotations

import shlex

import pytest

from stoker.cli.serve import _greet


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_the_line_to_try_can_be_pasted(
    chat: bool, key: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _greet("http://127.0.0.1:8000", "tiny", chat=chat, key=key)
    greeting, command = capsys.readouterr().out.splitlines()
    words = shlex.split(command)
    assert "tiny" in greeting
    assert words[0] == "curl"
    assert words[1].endswith("/v1/chat/completions" if chat else "/v1/completions")
    assert ("authorization: Bearer YOUR_API_KEY" in words) == key
