"""`stoker chat`: a conversation in the terminal, with a server (--url) or a model of your own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from typing import IO

from rich.console import Console

from stoker.cli.backends import Backend, EngineBackend, Message, ServerBackend
from stoker.cli.options import add_options, doc_of, read_options
from stoker.core.config import EngineConfig
from stoker.core.errors import StokerError
from stoker.core.request import Usage

HELP = """  /reset         forget the conversation
  /system TEXT   forget the conversation and set the system message
  /exit          leave (also Ctrl-D)
Ctrl-C stops an answer or drops the line being typed."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", default="", help=doc_of(EngineConfig, "model"))
    parser.add_argument("--url", help="talk to this server instead, e.g. http://127.0.0.1:8000")
    parser.add_argument("--api-key", metavar="TEXT", help="the server's key")
    parser.add_argument("--system", default="", metavar="TEXT", help="system message")
    parser.add_argument(
        "--temperature", type=float, metavar="X", help="0 is greedy (default: the model's)"
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", default=1024, help="longest answer (default: 1024)"
    )
    add_options(parser, EngineConfig, skip=("model",))


def run(args: Namespace) -> int:
    terminal = console()
    with asyncio.Runner() as runner:
        backend = runner.run(_connect(args, terminal))
        try:
            Chat(terminal, runner, backend, args.system).loop()
        finally:
            runner.run(backend.close())
    return 0


def console(file: IO[str] | None = None) -> Console:
    """On stdout, or on `file`. A model's text is shown as it is: `a[:x:]` is no emoji."""
    return Console(file=file, highlight=False, emoji=False)


async def _connect(args: Namespace, console: Console) -> Backend:
    if args.url:
        return await ServerBackend.connect(
            args.url, args.api_key, args.temperature, args.max_tokens
        )
    config = read_options(EngineConfig, args)
    with console.status("Loading the model …"):
        backend = EngineBackend(config, args.temperature, args.max_tokens)
        await backend.start()
    return backend


@dataclass
class Chat:
    """The conversation so far and the terminal it is held in."""

    console: Console
    runner: asyncio.Runner
    backend: Backend
    system: str
    messages: list[Message] = field(default_factory=list)

    def loop(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (line editing and history for input())
        self.console.print(f"[bold]{self.backend.model}[/bold] [dim]· /help for commands[/dim]")
        self._reset(self.system)
        while (line := self._read()) is not None:
            if line.startswith("/"):
                if not self._command(line):
                    return
            elif line:
                self._answer(line)

    def _read(self) -> str | None:
        try:
            return self.console.input("[bold cyan]›[/bold cyan] ").strip()
        except EOFError:
            self.console.print()
            return None
        except KeyboardInterrupt:
            self.console.print("  [dim]Ctrl-D leaves[/dim]")
            return ""

    def _command(self, line: str) -> bool:
        """Run a slash command; False ends the chat."""
        name, _, rest = line.partition(" ")
        match name:
            case "/exit" | "/quit":
                return False
            case "/reset":
                self._reset(self.system)
                self.console.print("  [dim]a new conversation[/dim]")
            case "/system":
                self._reset(rest)
                self.console.print("  [dim]a new conversation, with this system message[/dim]")
            case _:
                if name != "/help":
                    self.console.print(f"no command {name}", style="dim", markup=False)
                self.console.print(HELP, style="dim", markup=False)
        return True

    def _reset(self, system: str) -> None:
        self.system = system
        self.messages = [{"role": "system", "content": system}] if system else []

    def _answer(self, line: str) -> None:
        """Stream one answer. Ctrl-C keeps what was said; an error takes the question back."""
        self.messages.append({"role": "user", "content": line})
        said: list[str] = []
        try:
            self.runner.run(self._stream(said))
        except KeyboardInterrupt:
            self.console.print(" [dim]stopped[/dim]")
        except StokerError as error:
            self.console.print(error.message, style="red", markup=False)
            self.messages.pop()
            return
        self.messages.append({"role": "assistant", "content": "".join(said)})

    async def _stream(self, said: list[str]) -> None:
        started = first = time.perf_counter()
        usage = Usage()
        async with contextlib.aclosing(self.backend.reply(self.messages)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if piece.text:
                    first = first if said else time.perf_counter()
                    said.append(piece.text)
                    self.console.print(piece.text, end="", markup=False, soft_wrap=True)
                usage = piece.usage or usage
        decode_s = time.perf_counter() - first
        speed = (usage.completion_tokens - 1) / decode_s if usage.completion_tokens > 1 else 0.0
        self.console.print(
            f"\n[dim]{usage.completion_tokens} tokens · {speed:.1f} tokens/s · first after "
            f"{first - started:.2f} s · {usage.cached_tokens} of {usage.prompt_tokens} prompt "
            "tokens cached[/dim]"
        )
