"""A tokenizer from a Hugging Face folder: tokenizer.json, tokenizer_config.json, chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from stoker.core.errors import CheckpointError
from stoker.text.parts import TokenizerParts
from stoker.text.pieces import Spelling


def read_hub_tokenizer(folder: Path) -> TokenizerParts:
    """Build the parts of the tokenizer in `folder`.

    Raises:
        CheckpointError: a file is missing or damaged, or decodes in a way that is not known.
    """
    backend = _read_backend(folder / "tokenizer.json")
    config = _read_json(folder / "special_tokens_map.json") | _read_json(
        folder / "tokenizer_config.json"
    )
    decoders = _decoder_steps(backend)
    bos_id = _named_token(backend, config, "bos_token")
    return TokenizerParts(
        backend=backend,
        spelling=_spelling(decoders, folder),
        prepends_space=False,
        strips_first_space=_strips_first_space(decoders),
        vocab_size=max(backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1,
        bos_id=bos_id,
        eos_id=_named_token(backend, config, "eos_token"),
        add_bos=_adds_bos(backend, config, bos_id),
        chat_template=_chat_template(folder, config),
    )


def _read_backend(path: Path) -> tokenizers.Tokenizer:
    if not path.is_file():
        raise CheckpointError(
            f"{path.parent} has no tokenizer.json; a tokenizer.model alone is not supported "
            "(transformers writes tokenizer.json with save_pretrained)"
        )
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception for a damaged file
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _read_json(path: Path) -> dict[str, Any]:
    """The object in `path`; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} must hold a JSON object")
    return value


def _decoder_steps(backend: tokenizers.Tokenizer) -> list[dict[str, Any]]:
    """The decoder as its JSON steps, in order."""
    if backend.decoder is None:
        return []
    state = json.loads(backend.decoder.__getstate__())
    steps: list[dict[str, Any]] = state["decoders"] if state["type"] == "Sequence" else [state]
    return steps


def _spelling(decoders: list[dict[str, Any]], folder: Path) -> Spelling:
    kinds = {step["type"] for step in decoders}
    if "ByteLevel" in kinds:
        return Spelling.BYTE_LEVEL
    if kinds & {"ByteFallback", "Metaspace"}:
        return Spelling.SENTENCEPIECE
    raise CheckpointError(
        f"{folder / 'tokenizer.json'} decodes by {sorted(kinds) or 'nothing'}; known are "
        "ByteLevel, ByteFallback and Metaspace"
    )


def _strips_first_space(decoders: list[dict[str, Any]]) -> bool:
    return any(
        (step["type"] == "Strip" and step["content"] == " " and step["start"] > 0)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
        for step in decoders
    )


def _named_token(backend: tokenizers.Tokenizer, config: dict[str, Any], name: str) -> int | None:
    value = config.get(name)
    text = value.get("content") if isinstance(value, dict) else value
    if text is None:
        return None
    token_id: int | None = backend.token_to_id(str(text))
    return token_id


def _adds_bos(backend: tokenizers.Tokenizer, config: dict[str, Any], bos_id: int | None) -> bool:
    """tokenizer_config.json decides; without a word in it the post-processor does."""
    said = config.get("add_bos_token")
    if isinstance(said, bool):
        return said
    return bos_id is not None and backend.encode("", add_special_tokens=True).ids[:1] == [bos_id]


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    """chat_template.jinja, or the config's: one text, or a list of named ones."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            return path.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
    value = config.get("chat_template")
    if isinstance(value, list):
        named = _named_templates(value, folder)
        value = named.get("default", next(iter(named.values()), None))
    return None if value is None else str(value)


def _named_templates(entries: list[Any], folder: Path) -> dict[str, Any]:
    try:
        return {entry["name"]: entry["template"] for entry in entries}
    except (TypeError, KeyError) as error:
        raise CheckpointError(
            f"{folder / 'tokenizer_config.json'}: chat_template is neither a text nor a list of "
            "objects with a name and a template"
        ) from error
