"""Where a model's files are, whatever it is called. Opens nothing and is light to import."""

from __future__ import annotations

from pathlib import Path

from stoker.core.errors import CheckpointError
from stoker.weights.demo import demo_model


def locate(model: str, revision: str | None = None) -> Path:
    """The folder or GGUF file of `model`: a path if there is one, else a Hugging Face id, which is
    fetched if it is not in the local cache; "" is the demo model.

    revision: branch, tag or commit, for an id only. CheckpointError in one line if there is none.
    """
    if not model:
        return demo_model()
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        if path.suffix != ".gguf":
            raise CheckpointError(f"{path} is neither a model folder nor a .gguf file")
        return path
    if path.suffix == ".gguf" or model.startswith(("/", ".", "~")) or model.count("/") != 1:
        raise CheckpointError(f"{model}: no such file or folder")
    from stoker.weights.hub import hub_folder  # brings NumPy and a reader of safetensors

    return hub_folder(model, revision)
