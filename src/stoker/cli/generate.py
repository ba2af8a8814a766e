"""`stoker generate`: complete prompts with a model in this process and print the texts."""

from __future__ import annotations

import json
import secrets
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from stoker.cli.options import add_options, read_options
from stoker.core.config import EngineConfig
from stoker.core.errors import ConfigError
from stoker.core.request import SamplingParams


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="+", help="a prompt, or - for one prompt a line on stdin")
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", default=128, help="longest text (default: 128)"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="X", default=0.0, help="0, the default, is greedy"
    )
    parser.add_argument(
        "--top-p", type=float, metavar="X", default=1.0, help="nucleus sampling (default: 1, off)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="default: a random one")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with usage")
    add_options(parser, EngineConfig)


def run(args: Namespace) -> int:
    from stoker.engine.llm import LLM  # only this command pays for an engine

    prompts = [line for prompt in args.prompt for line in _lines(prompt)]
    if not prompts:
        raise ConfigError("no prompt: give one as an argument, or lines on stdin after -")
    params = SamplingParams(
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        seed=secrets.randbits(63) if args.seed is None else args.seed,
    )
    llm = LLM(config=read_options(EngineConfig, args))
    completions = llm.generate(prompts, params, progress=sys.stderr.isatty())
    for prompt, completion in zip(prompts, completions, strict=True):
        if args.json:
            print(json.dumps({"prompt": prompt} | asdict(completion), ensure_ascii=False))
        else:
            print(prompt + completion.choices[0].text)
    return 0


def _lines(prompt: str) -> list[str]:
    if prompt != "-":
        return [prompt]
    return [line for line in sys.stdin.read().splitlines() if line.strip()]
