"""The chat in a terminal: what is shown, and what is remembered."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from stoker.cli.backends import Message, Piece
from stoker.cli.chat import Chat, console
from stoker.core.errors import StokerError
from stoker.core.request import Usage


@dataclass
class Parrot:
    """Says `pieces`, then fails if told to; `heard` is what it was asked."""

    pieces: list[str]
    fails: bool = False
    heard: list[list[Message]] = field(default_factory=list)
    model: str = "parrot"

    async def reply(self, messages: list[Message]) -> AsyncIterator[Piece]:
        self.heard.append(list(messages))
        for index, text in enumerate(self.pieces):
            yield Piece(text, Usage(7, index + 1, 3))
        if self.fails:
            raise StokerError("the engine ended")

    async def close(self) -> None: ...


def talk(monkeypatch: pytest.MonkeyPatch, parrot: Parrot, *lines: str) -> tuple[str, Chat]:
    """Type `lines` and then Ctrl-D; the terminal's text, and the chat as it was left."""
    typed = iter(lines)

    def read(self: Console, prompt: str = "") -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    monkeypatch.setattr(Console, "input", read)
    screen = io.StringIO()
    with asyncio.Runner() as runner:
        chat = Chat(console(screen), runner, parrot, "be brief")
        chat.loop()
    return screen.getvalue(), chat


def test_an_answer_is_shown_as_it_is_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    parrot = Parrot(["[bold]a[:x:]", " :smile:"])
    shown, chat = talk(monkeypatch, parrot, "hi")
    assert "[bold]a[:x:] :smile:\n" in shown
    assert "2 tokens" in shown and "3 of 7 prompt tokens cached" in shown
    assert [m["role"] for m in chat.messages] == ["system", "user", "assistant"]
    assert chat.messages[-1]["content"] == "[bold]a[:x:] :smile:"


def test_an_error_takes_the_question_back(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, chat = talk(monkeypatch, Parrot(["half"], fails=True), "hi")
    assert "the engine ended" in shown
    assert [m["role"] for m in chat.messages] == ["system"]


def test_ctrl_c_at_the_prompt_does_not_end_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    parrot = Parrot(["yes"])
    shown, _ = talk(monkeypatch, parrot, "^C", "hi")
    assert "Ctrl-D leaves" in shown
    assert [m[-1]["content"] for m in parrot.heard] == ["hi"]


def test_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    parrot = Parrot(["yes"])
    shown, chat = talk(monkeypatch, parrot, "/help", "hi", "/system be long", "ho", "/exit", "no")
    assert "/reset" in shown and "no command" not in shown
    assert "a new conversation" in shown
    assert [m[0]["content"] for m in parrot.heard] == ["be brief", "be long"]
    assert len(parrot.heard[1]) == 2, "what was said before is forgotten"
    talk(monkeypatch, parrot, "/reset", "he")
    assert len(parrot.heard[-1]) == 2
    assert chat.system == "be long"


def test_an_unknown_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, chat = talk(monkeypatch, Parrot([]), "/rest")
    assert "no command /rest" in shown and "/reset" in shown
    assert [m["role"] for m in chat.messages] == ["system"]
