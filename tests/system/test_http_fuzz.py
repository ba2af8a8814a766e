"""Extreme values of every field, through a served model with real kernels: its engine lives on.

The fuzzers of tests/conformance stop at a fake engine; here bounds and what lies beyond them go
through the sockets, the scheduler and the sampler.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx

from tests.support.checkpoints import VOCAB, make_tiny
from tests.support.processes import running_server

NUM_REQUESTS = 150
GOOD = {"prompt": "coal", "max_tokens": 4, "temperature": 0.0, "logprobs": 2}

EXTREMES: dict[str, list[Any]] = {
    "prompt": ["", "\x00", "a" * 200, [0], [VOCAB - 1], [VOCAB], [5] * 256, [[1], [2] * 40], []],
    "max_tokens": [1, 2**31 - 1, 2**31, 0],
    "min_tokens": [1, 4, 2**31 - 1],
    "temperature": [0, 2, 5e-324, 1e-40, 1e-3, 2.1],
    "top_p": [1, 5e-324, 1e-9, 0],
    "top_k": [-1, 0, 1, VOCAB, VOCAB + 1, 2**31 - 1],
    "min_p": [0, 1, 5e-324],
    "repetition_penalty": [2, 5e-324, 1e-39, 1e-3, 0],
    "presence_penalty": [-2, 2, -2.1],
    "frequency_penalty": [-2, 2, 1e400],
    "logit_bias": [{"0": 100}, {str(i): -100 for i in range(VOCAB)}, {str(VOCAB): 1}],
    "seed": [0, -(2**63), 2**64 - 1, 2**64],
    "n": [1, 5, 128, 129],
    "logprobs": [0, 20, 21],
    "prompt_logprobs": [0, 20, 21],
    "echo": [True, 1],
    "truncate_prompt_tokens": [-1, 0, 1, 2**31],
    "allowed_token_ids": [[], [0], list(range(VOCAB)), [VOCAB]],
    "bad_words": [["a"], [" "], ["x" * 5000], ["a"] * 1025],
    "stop": ["a", ["", "b"], ["x" * 5000], ["a"] * 17, "\ud800"],
    "stop_token_ids": [[], list(range(VOCAB)), [VOCAB], [-1]],
    "ignore_eos": [True, 1],
    "stream": [True],
    "priority": [2**31 - 1, -(2**31) + 1, 2**63],
    "cache_salt": ["a", "\ud800", "x" * 257],
}


def _bodies() -> list[dict[str, Any]]:
    """Each extreme alone, then several together."""
    dice = random.Random(0)
    bodies = [{name: value} for name, values in EXTREMES.items() for value in values]
    while len(bodies) < NUM_REQUESTS:
        names = dice.sample(sorted(EXTREMES), 4)
        bodies.append({name: dice.choice(EXTREMES[name]) for name in names})
    return [GOOD | body for body in bodies]


def test_no_request_ends_the_engine_or_changes_the_next_answer(tmp_path: Path) -> None:
    make_tiny("gemma3", tmp_path)
    arguments = [str(tmp_path), "--max-model-len", "256", "--num-pages", "200"]
    with running_server(arguments) as server:
        server.wait_ready()
        engine = server.engine_pid
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            expected = client.post("/v1/completions", json=GOOD).json()["choices"]
            for body in _bodies():
                answer = client.post("/v1/completions", content=json.dumps(body))
                shown = f"{answer.status_code} for {body}: {answer.text[:500]}"
                # 500: bias and penalties may leave no token to draw, which only the engine sees.
                assert answer.status_code in (200, 400, 500), shown
                if answer.status_code != 200:
                    error = answer.json()["error"]
                    assert error["param"] in body or error["code"] == "request_failed", shown
            assert client.post("/v1/completions", json=GOOD).json()["choices"] == expected
        assert server.engine_pid == engine, "the engine was replaced"
