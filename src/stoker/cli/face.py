"""What `stoker serve` needs besides the engine process: the HTTP app and all that it stands on.

Importing and making it takes as long as an engine takes to load a small model, so `serve` starts
the engine first and then comes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from stoker.api.app import build_app
from stoker.api.server import serve
from stoker.core.config import EngineConfig, ServeConfig
from stoker.core.errors import ConfigError
from stoker.engine.client import EngineClient
from stoker.text.chat_template import ChatTemplate
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.checkpoint import open_checkpoint


@dataclass(frozen=True, slots=True)
class Face:
    app: FastAPI
    config: ServeConfig
    model_name: str
    chat: bool
    """Whether the model can chat: it has a template."""

    async def serve(self, on_ready: Callable[[str], None]) -> None:
        """See `api.server.serve`."""
        await serve(self.app, self.config, on_ready)


def make_face(client: EngineClient, engine_config: EngineConfig, config: ServeConfig) -> Face:
    """Give `client` its tokenizer and put the HTTP app before it.

    Raises:
        StartupError: the checkpoint, the chat template or an option cannot be used.
    """
    checkpoint = open_checkpoint(engine_config.model, engine_config.revision)
    tokenizer = load_tokenizer(checkpoint.tokenizer)
    client.tokenizer = tokenizer
    template = _template(tokenizer, config)
    name = config.served_model_name or checkpoint.name
    app = build_app(client, tokenizer, template, config, name, checkpoint.generation)
    return Face(app, config, name, chat=template is not None)


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
