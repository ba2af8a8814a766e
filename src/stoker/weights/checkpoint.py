"""Open a model, whatever it is: a folder, a GGUF file, a Hugging Face id, or the demo model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stoker.weights.contract import Checkpoint, GGUFTokenizer, HubTokenizer, TokenizerSource
from stoker.weights.demo import demo_defaults
from stoker.weights.gguf_checkpoint import open_gguf
from stoker.weights.hf_folder import open_folder
from stoker.weights.locate import locate

__all__ = ["Checkpoint", "GGUFTokenizer", "HubTokenizer", "TokenizerSource", "open_checkpoint"]


def open_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """Open `model`: a path if there is one, else a Hugging Face id; "" is the demo model.

    revision: branch, tag or commit, for an id only. CheckpointError in one line if it cannot be.
    """
    path = locate(model, revision)
    if path.is_file():
        file = open_gguf(path)
        return file if model else replace(file, generation=demo_defaults(file.generation))
    by_id = not Path(model).expanduser().is_dir()
    return open_folder(path, name=model if by_id else None)
