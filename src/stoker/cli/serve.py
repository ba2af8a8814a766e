"""`stoker serve`: one model over HTTP. The server is up, but not ready, while the model loads."""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser, Namespace
from pathlib import Path

from stoker.api.app import build_app
from stoker.api.server import serve
from stoker.cli.options import add_options, doc_of, read_options
from stoker.core.config import EngineConfig, ServeConfig, check_serving
from stoker.core.errors import ConfigError
from stoker.engine.bars import LoadBar
from stoker.engine.client import EngineClient
from stoker.text.chat_template import ChatTemplate
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.checkpoint import open_checkpoint


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", default="", help=doc_of(EngineConfig, "model"))
    add_options(parser, EngineConfig, skip=("model",))
    add_options(parser, ServeConfig)


def run(args: Namespace) -> int:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its life is told in our own words
    asyncio.run(_serve(read_options(EngineConfig, args), read_options(ServeConfig, args)))
    return 0


async def _serve(engine_config: EngineConfig, config: ServeConfig) -> None:
    check_serving(config)
    checkpoint = open_checkpoint(engine_config.model, engine_config.revision)
    tokenizer = load_tokenizer(checkpoint.tokenizer)
    bar = LoadBar()
    client = EngineClient(
        engine_config,
        tokenizer,
        health_timeout_s=config.health_timeout_s,
        on_progress=bar.report,
    )
    template = _template(tokenizer, config)
    name = config.served_model_name or checkpoint.name
    app = build_app(client, tokenizer, template, config, name, checkpoint.generation)
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    http = asyncio.create_task(serve(app, config, listening.set_result))
    start = asyncio.create_task(client.start())
    try:
        with bar:
            await asyncio.wait({http, start}, return_when=asyncio.FIRST_COMPLETED)
        if not http.done():
            await start
            _greet(await listening, name, chat=template is not None, key=config.api_key is not None)
        await http
    finally:
        for task in (http, start):
            task.cancel()
        await asyncio.gather(http, start, return_exceptions=True)
        await client.close()


def _template(tokenizer: Tokenizer, config: ServeConfig) -> ChatTemplate | None:
    source = tokenizer.chat_template
    if config.chat_template is not None:
        try:
            source = Path(config.chat_template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"chat_template {config.chat_template} cannot be read: {error}",
                param="chat_template",
            ) from error
    return None if source is None else ChatTemplate(source, tokenizer)


def _greet(url: str, name: str, *, chat: bool, key: bool) -> None:
    """What to do next, as a line that can be pasted into a shell; the API key is not shown."""
    authorization = " -H 'authorization: Bearer YOUR_API_KEY'" if key else ""
    path, body = (
        ("chat/completions", '{"messages": [{"role": "user", "content": "Hello!"}]}')
        if chat
        else ("completions", '{"prompt": "Once upon a time"}')
    )
    print(
        f"Serving {name} on {url} (Ctrl-C stops). Try:\n"
        f"curl {url}/v1/{path}{authorization} -H 'content-type: application/json' -d '{body}'",
        flush=True,
    )
