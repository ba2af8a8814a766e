"""Open a model, whatever it is: a folder, a GGUF file, a Hugging Face id, or the demo model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stoker.core.errors import CheckpointError
from stoker.weights.contract import Checkpoint, GGUFTokenizer, HubTokenizer, TokenizerSource
from stoker.weights.demo import demo_defaults, demo_model
from stoker.weights.gguf_checkpoint import open_gguf
from stoker.weights.hf_folder import open_folder
from stoker.weights.hub import hub_folder

__all__ = ["Checkpoint", "GGUFTokenizer", "HubTokenizer", "TokenizerSource", "open_checkpoint"]


def open_checkpoint(model: str, revision: str | None = None) -> Checkpoint:
    """Open `model`: a path if there is one, else a Hugging Face id; "" is the demo model.

    revision: branch, tag or commit, for an id only. CheckpointError in one line if it cannot be.
    """
    if not model:
        demo = open_gguf(demo_model())
        return replace(demo, generation=demo_defaults(demo.generation))
    path = Path(model).expanduser()
    if path.is_dir():
        return open_folder(path)
    if path.is_file():
        if path.suffix != ".gguf":
            raise CheckpointError(f"{path} is neither a model folder nor a .gguf file")
        return open_gguf(path)
    if path.suffix == ".gguf" or model.startswith(("/", ".", "~")) or model.count("/") != 1:
        raise CheckpointError(f"{model}: no such file or folder")
    return open_folder(hub_folder(model, revision), name=model)
