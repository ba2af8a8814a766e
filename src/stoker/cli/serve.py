"""`stoker serve`: one model over HTTP. The server is up, but not ready, while the model loads."""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from stoker.cli.options import add_options, doc_of, read_options
from stoker.core.config import EngineConfig, ServeConfig, check_serving
from stoker.engine.bars import LoadBar
from stoker.engine.client import EngineClient
from stoker.weights.locate import locate

if TYPE_CHECKING:
    from stoker.cli.face import Face


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
    locate(engine_config.model, engine_config.revision)  # before two processes want the same files
    bar = LoadBar()
    client = EngineClient(
        engine_config, health_timeout_s=config.health_timeout_s, on_progress=bar.report
    )
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    start = asyncio.create_task(client.start())
    tasks: list[asyncio.Task[None]] = [start]
    try:
        with bar:
            # The two processes get ready side by side: neither needs the other for it.
            face = await asyncio.to_thread(_make_face, client, engine_config, config)
            tasks.append(http := asyncio.create_task(face.serve(listening.set_result)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not http.done():
            await start
            either: list[asyncio.Future[Any]] = [http, listening]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not http.done():
            key = config.api_key is not None
            _greet(listening.result(), face.model_name, chat=face.chat, key=key)
        await http
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


def _make_face(client: EngineClient, engine_config: EngineConfig, config: ServeConfig) -> Face:
    from stoker.cli.face import make_face

    return make_face(client, engine_config, config)


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
