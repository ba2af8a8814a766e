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
    parser.add_argument("--model", default="", help="what `stoker serve` takes as MODEL")
    parser.add_argument("--max-tokens", type=int, default=128, help="longest completion")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--top-p", type=float, default=1.0, help="nucleus sampling")
    parser.add_argument("--seed", type=int, help="key of the randomness (default: a random one)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with usage")
    add_options(parser, EngineConfig, skip=("model",))


def run(args: Namespace) -> int:
    from stoker.engine.llm import LLM  # brings PyTorch: only this command pays for it

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
            print(json.dumps({"prompt": prompt} | asdict(completion)))
        else:
            print(prompt + completion.choices[0].text)
    return 0


def _lines(prompt: str) -> list[str]:
    return sys.stdin.read().splitlines() if prompt == "-" else [prompt]
