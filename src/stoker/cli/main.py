"""The `stoker` command: run a subcommand, turn a deliberate error into one line and exit code 2."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import stoker
from stoker.core.errors import StokerError

COMMANDS = {
    "serve": "Serve a model over an OpenAI-compatible HTTP API",
    "chat": "Talk to a model in the terminal",
    "generate": "Complete prompts and print the texts",
    "doctor": "Show what this machine has, which kernels it uses and what fits",
}

MAX_MESSAGE = 500


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Each command module has `add_arguments` and `run`."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except StokerError as error:
        print(f"stoker: {_one_line(error.message)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # may also come while the command's modules are imported
        return 130


def _run(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="stoker", description="An open LLM inference engine.")
    version = f"stoker {stoker.__version__}" if "--version" in argv else ""  # slow to find out
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, doc in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=doc, description=doc)
        if argv and argv[0] == name:  # import only the command that runs: start-up time counts
            importlib.import_module(f"stoker.cli.{name}").add_arguments(subparser)
    args = parser.parse_args(argv)
    return int(importlib.import_module(f"stoker.cli.{args.command}").run(args))


def _one_line(message: str) -> str:
    """Messages may quote a damaged file, of which a line is enough."""
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE else line[:MAX_MESSAGE] + "…"


if __name__ == "__main__":
    sys.exit(main())
