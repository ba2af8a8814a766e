"""A load of agents: many sessions at once, each a loop of tool calls whose prompt only grows.

    python -m benchmarks.agent_load http://127.0.0.1:8000 [--sessions 16] [--turns 4] …

All sessions share a system prompt; each has its own task, and every turn appends the server's
answer and a tool's output to the prompt of the last. So nearly all of a prompt was seen before, by
this session or by all. The client speaks /v1/completions with streaming, as OpenAI-compatible
servers do, always asks for the same number of tokens, and counts what the server reports.

Prints one JSON object: output tokens per second over the run, percentiles of the time to the first
token, and how much was asked and answered. It only talks to 127.0.0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

WORDS = tuple(
    word
    for line in (
        "the file server returns an error when request body holds more than one line so check",
        "that parser reads each part of stream before it closes and write test which shows how",
        "fast table can be sorted after new rows arrive from queue while other workers wait",
    )
    for word in line.split()
)


@dataclass(frozen=True, slots=True)
class Load:
    """The shape of the load. Words are about as many tokens."""

    sessions: int = 16
    turns: int = 4
    system_words: int = 400
    task_words: int = 50
    tool_words: int = 120
    max_tokens: int = 32
    stagger_s: float = 0.1
    """Sessions start one after another, this far apart."""
    deadline_s: float = 300.0
    """No turn starts after this; one that runs may end."""
    seed: int = 0


@dataclass(slots=True)
class Turn:
    ttft_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Result:
    """What one run of a load saw."""

    turns: list[Turn] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def throughput(self) -> float:
        """Output tokens per second of the whole run."""
        return sum(turn.output_tokens for turn in self.turns) / self.wall_s

    def ttft(self, quantile: float) -> float:
        """Seconds to the first token that this share of the turns did not exceed."""
        times = sorted(turn.ttft_s for turn in self.turns)
        return times[min(int(quantile * len(times)), len(times) - 1)]

    def summary(self) -> dict[str, float | int | list[str]]:
        return {
            "turns": len(self.turns),
            "errors": self.errors[:3],
            "wall_s": round(self.wall_s, 2),
            "throughput": round(self.throughput, 2) if self.turns else 0.0,
            "ttft_p50": round(self.ttft(0.5), 3) if self.turns else 0.0,
            "ttft_p90": round(self.ttft(0.9), 3) if self.turns else 0.0,
            "prompt_tokens": sum(turn.prompt_tokens for turn in self.turns),
            "cached_tokens": sum(turn.cached_tokens for turn in self.turns),
            "output_tokens": sum(turn.output_tokens for turn in self.turns),
        }


async def run_load(url: str, load: Load) -> Result:
    """Run all sessions to their end or to the deadline. `url` must be on 127.0.0.1 (ValueError)."""
    if urlsplit(url).hostname != "127.0.0.1":
        raise ValueError(f"{url} is not on 127.0.0.1")
    result = Result()
    # A connection for each request: a server may close an idle one just when it is used again.
    limits = httpx.Limits(max_connections=load.sessions, max_keepalive_connections=0)
    start = time.perf_counter()
    # No proxy of the environment between the client and a server on this machine.
    async with httpx.AsyncClient(
        base_url=url, timeout=load.deadline_s, limits=limits, trust_env=False
    ) as client:
        model = await _model(client)
        start = time.perf_counter()
        await asyncio.gather(
            *(
                _session(client, model, load, index, start + load.deadline_s, result)
                for index in range(load.sessions)
            )
        )
    result.wall_s = time.perf_counter() - start
    return result


async def _session(
    client: httpx.AsyncClient, model: str, load: Load, index: int, deadline: float, result: Result
) -> None:
    await asyncio.sleep(index * load.stagger_s)
    own = random.Random(f"{load.seed}/{index}")
    prompt = f"System: {_text(random.Random(load.seed), load.system_words)}\n"
    prompt += f"User: {_text(own, load.task_words)}\nAssistant:"
    for _ in range(load.turns):
        if time.perf_counter() > deadline:
            return
        try:
            turn, answer = await _turn(client, model, prompt, load.max_tokens)
        except (httpx.HTTPError, LookupError, ValueError) as error:
            result.errors.append(f"{type(error).__name__}: {error}")
            return
        result.turns.append(turn)
        prompt += f"{answer}\nTool: {_text(own, load.tool_words)}\nAssistant:"


async def _turn(
    client: httpx.AsyncClient, model: str, prompt: str, max_tokens: int
) -> tuple[Turn, str]:
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    start, first = time.perf_counter(), 0.0
    answer = ""
    usage: dict[str, Any] = {}
    async with client.stream("POST", "/v1/completions", json=body) as response:
        if response.status_code != 200:
            text = (await response.aread()).decode(errors="replace")
            raise ValueError(f"HTTP {response.status_code}: {text[:200]}")
        async for chunk in _chunks(response):
            usage = chunk.get("usage") or usage
            for choice in chunk.get("choices", ()):
                # A first token may be half a character, and its chunk without text.
                first = first or time.perf_counter()
                answer += choice.get("text") or ""
    details = usage.get("prompt_tokens_details") or {}
    turn = Turn(
        ttft_s=first - start,
        prompt_tokens=usage["prompt_tokens"],
        cached_tokens=details.get("cached_tokens") or 0,
        output_tokens=usage["completion_tokens"],
    )
    return turn, answer


async def _chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Server-sent events as JSON objects, up to [DONE]."""
    async for line in response.aiter_lines():
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data and data != "[DONE]":
            chunk = json.loads(data)
            if "error" in chunk:
                raise ValueError(f"error in stream: {str(chunk['error'])[:200]}")
            yield chunk


async def _model(client: httpx.AsyncClient) -> str:
    models = (await client.get("/v1/models")).json()
    return str(models["data"][0]["id"])


def _text(source: random.Random, words: int) -> str:
    return " ".join(source.choice(WORDS) for _ in range(words))


def main() -> None:
    parser = argparse.ArgumentParser(description="Agent-shaped load against a server")
    parser.add_argument("url")
    defaults = Load()
    for name in Load.__slots__:
        default = getattr(defaults, name)
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=type(default), default=default)
    options = vars(parser.parse_args())
    url = options.pop("url")
    print(json.dumps(asyncio.run(run_load(url, Load(**options))).summary()))


if __name__ == "__main__":
    main()
