"""What `stoker serve` says once it is up."""

from __future__ import annotations

import shlex

import pytest

from stoker.cli.main import main
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


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--max-body-mib", "0"), ("--drain-timeout-s", "-1"), ("--health-timeout-s", "-1")],
)
def test_a_number_that_cannot_work_is_one_line(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", flag, value]) == 2
    name = flag.strip("-").replace("-", "_")
    assert capsys.readouterr().err.startswith(f"stoker: {name} is {value}")
