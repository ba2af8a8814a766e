"""The official OpenAI client against a running server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import openai
import pytest

from tests.support.api_app import HI, Api
from tests.support.fake_engine import FakeEngine, FakeTokenizer
from tests.support.http_server import ServerThread, serving

HELLO = ((72,), (101, 108), (108, 111))


@pytest.fixture
def api() -> Api:
    return Api(FakeEngine(FakeTokenizer(), HELLO, cached_tokens=4))


@pytest.fixture
def server(api: Api) -> Iterator[ServerThread]:
    with serving(api) as running:
        yield running


@pytest.fixture
def client(server: ServerThread) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fake", messages=HI, logprobs=True, n=2)  # type: ignore[arg-type]
    assert [choice.message.content for choice in answer.choices] == ["Hello", "Hello"]
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.content is not None
    assert answer.choices[0].logprobs.content[0].token == "H"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 4


def test_an_answer_can_be_sent_back_as_history(client: openai.OpenAI) -> None:
    message = client.chat.completions.create(model="fake", messages=HI).choices[0].message  # type: ignore[arg-type]
    history = [*HI, message.model_dump(), *HI]
    again = client.chat.completions.create(model="fake", messages=history)  # type: ignore[arg-type]
    assert again.choices[0].message.content == "Hello"


def test_streamed_chat(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="fake",
        messages=HI,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
    )
    parts = list(stream)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == "Hello"
    assert parts[0].choices[0].delta.role == "assistant"
    assert parts[-1].choices == []
    assert parts[-1].usage is not None
    assert parts[-1].usage.completion_tokens == 6


def test_the_clients_own_fold_of_the_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="fake", messages=HI) as stream:  # type: ignore[arg-type]
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "Hello"
    assert final.choices[0].finish_reason == "stop"


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="fake", prompt=["a", "b"], logprobs=2)
    assert [choice.text for choice in answer.choices] == ["Hello", "Hello"]
    assert answer.choices[1].logprobs is not None
    assert answer.choices[1].logprobs.tokens == ["H", "e", "l", "l", "o", "<eos>"]
    stream = client.completions.create(model="fake", prompt=[1, 2], stream=True)
    assert "".join(part.choices[0].text for part in stream) == "Hello"


def test_a_prompt_is_scored_by_echo(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="fake", prompt="ab", echo=True, max_tokens=0, logprobs=1
    )
    [choice] = answer.choices
    assert (choice.text, choice.finish_reason) == ("ab", "length")
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == ["<bos>", "a", "b"]
    assert choice.logprobs.token_logprobs is not None
    assert choice.logprobs.token_logprobs[0] is None


def test_embeddings(client: openai.OpenAI) -> None:
    """Without encoding_format the client asks for base64 and decodes it."""
    answer = client.embeddings.create(model="fake", input=["a", "b"])
    floats = client.embeddings.create(model="fake", input=[[1], [2]], encoding_format="float")
    for body in (answer, floats):
        assert [item.index for item in body.data] == [0, 1]
        assert body.data[1].embedding == pytest.approx([3 / 13, 4 / 13, 12 / 13])
    assert answer.usage.total_tokens == 4
    short = client.embeddings.create(model="fake", input="a", dimensions=1).data[0].embedding
    assert list(short) == [1.0]
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model="fake", input="a", dimensions=99)
    assert refused.value.param == "dimensions"


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").id == "fake"


def test_errors_are_the_clients_own_classes(client: openai.OpenAI, api: Api) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt", messages=HI)  # type: ignore[arg-type]
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="fake", messages=HI, temperature=9)  # type: ignore[arg-type]
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="fake", messages=HI, reasoning_effort="low")  # type: ignore[arg-type]
    assert refused.value.param == "reasoning_effort"
    api.engine.failure = RuntimeError("x")
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="fake", messages=HI)  # type: ignore[arg-type]
    stream = client.chat.completions.create(model="fake", messages=HI, stream=True)  # type: ignore[arg-type]
    with pytest.raises(openai.APIError):
        list(stream)


def test_leaving_a_stream_aborts_it(client: openai.OpenAI, api: Api) -> None:
    api.engine.script, api.engine.step_s = [[120]] * 400, 0.01
    stream = client.chat.completions.create(model="fake", messages=HI, stream=True)  # type: ignore[arg-type]
    next(iter(stream))
    stream.close()
    deadline = time.monotonic() + 2
    while not api.engine.calls[0].is_aborted and time.monotonic() < deadline:
        time.sleep(0.01)
    assert api.engine.calls[0].is_aborted


def test_many_at_once_and_a_cancel(server: ServerThread, api: Api) -> None:
    api.engine.step_s = 0.005

    async def main() -> None:
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none") as client:

            async def streamed() -> str:
                stream = await client.chat.completions.create(
                    model="fake",
                    messages=HI,  # type: ignore[arg-type]
                    stream=True,
                )
                return "".join([part.choices[0].delta.content or "" async for part in stream])

            async def whole() -> str | None:
                answer = await client.chat.completions.create(model="fake", messages=HI)  # type: ignore[arg-type]
                return answer.choices[0].message.content

            texts = await asyncio.gather(*(streamed() for _ in range(8)), *(whole() for _ in "ab"))
            assert texts == ["Hello"] * 10
            api.engine.script = [[120]] * 400
            task = asyncio.create_task(whole())
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0.3)
            assert api.engine.calls[-1].is_aborted

    asyncio.run(main())
