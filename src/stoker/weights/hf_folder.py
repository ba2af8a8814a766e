"""A checkpoint as Hugging Face lays it out: config.json, safetensors files, tokenizer files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stoker.core.errors import CheckpointError
from stoker.core.model import GenerationDefaults, ModelConfig
from stoker.weights.contract import HubTokenizer
from stoker.weights.fields import Fields
from stoker.weights.formats import FloatWeight, Weight
from stoker.weights.hf_config import generation_defaults, model_config
from stoker.weights.identity import content_revision
from stoker.weights.safetensors_file import SafetensorsFile
from stoker.weights.shapes import check_shape

INDEX = "model.safetensors.index.json"
_ROOTS = ("model.layers.", "model.embed_tokens.", "model.norm.", "lm_head.")


@dataclass(frozen=True, slots=True)
class FolderCheckpoint:
    """See `contract.Checkpoint`. stored: canonical name → its file and its name there."""

    path: Path
    name: str
    revision: str
    config: ModelConfig
    generation: GenerationDefaults
    tokenizer: HubTokenizer
    num_weights: int
    nbytes: int
    stored: dict[str, tuple[SafetensorsFile, str]]

    def names(self) -> list[str]:
        return sorted(self.stored)

    def weight(self, name: str) -> Weight:
        if name not in self.stored:
            raise CheckpointError(f"{self.path}: tensor {name} is missing")
        file, stored_name = self.stored[name]
        weight = file.weight(stored_name)
        check_shape(self.config, name, weight.shape)
        if self.config.family == "gemma3" and name.endswith("norm.weight"):
            return FloatWeight("f32", np.float32(1) + _as_float32(weight))
        return weight


def open_folder(path: Path, name: str | None = None) -> FolderCheckpoint:
    """CheckpointError if a file is missing, damaged, or describes a model that is not supported."""
    config = read_json(path / "config.json")
    if config is None:
        raise CheckpointError(
            f"{path} has no config.json: not a model folder (a GGUF file is named itself)"
        )
    parsed = model_config(config, str(path / "config.json"))
    generation = read_json(path / "generation_config.json") or {}
    files = [SafetensorsFile(file) for file in weight_files(path)]
    stored = _place(files, tied=parsed.tie_word_embeddings)
    return FolderCheckpoint(
        path=path,
        name=name or path.resolve().name,
        revision=content_revision(
            [(path / "config.json").read_bytes(), *(file.header for file in files)],
            [(file.path, len(file.header)) for file in files],
        ),
        config=parsed,
        generation=generation_defaults(config, generation, _tokenizer_eos(path)),
        tokenizer=HubTokenizer(path),
        num_weights=sum(math.prod(file.tensors[key].shape) for file, key in stored.values()),
        nbytes=sum(
            file.tensors[key].end - file.tensors[key].start for file, key in stored.values()
        ),
        stored=stored,
    )


def weight_files(path: Path) -> list[Path]:
    """The folder's safetensors files, sorted. CheckpointError if it has none or lacks one."""
    index = read_json(path / INDEX)
    if index is not None:
        places = index.get("weight_map")
        if not isinstance(places, dict) or not places:
            raise CheckpointError(f"{path / INDEX}: weight_map is missing")
        names = sorted({str(file) for file in places.values()})
    elif (path / "model.safetensors").is_file():
        names = ["model.safetensors"]
    else:
        # consolidated*.safetensors are the same weights in Mistral's own naming.
        names = sorted(
            file.name
            for file in path.glob("*.safetensors")
            if not file.name.startswith("consolidated")
        )
    if not names:
        raise CheckpointError(f"{path} has no weights: no .safetensors file")
    for name in names:
        if Path(name).name != name or not (path / name).is_file():
            raise CheckpointError(f"{path}: weight file {name} is missing")
    return [path / name for name in names]


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; None if there is no such file. CheckpointError if it is something else."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is not a JSON object")
    return value


def _place(files: list[SafetensorsFile], tied: bool) -> dict[str, tuple[SafetensorsFile, str]]:
    """Canonical names of the language model's tensors; towers and stored buffers are left out."""
    places = {}
    for file in files:
        for stored_name in file.tensors:
            name = _canonical(stored_name)
            buffer = name.endswith("rotary_emb.inv_freq")
            if name.startswith(_ROOTS) and not buffer and not (tied and name == "lm_head.weight"):
                places[name] = (file, stored_name)
    return places


def _canonical(name: str) -> str:
    """Undo the two nestings that multimodal checkpoints have used."""
    if name.startswith("language_model."):
        return name.removeprefix("language_model.")
    if name.startswith("model.language_model."):
        return "model." + name.removeprefix("model.language_model.")
    return name


def _tokenizer_eos(path: Path) -> list[int]:
    """The tokenizer's own end token: chat fine-tunes often name it here and nowhere else."""
    settings = read_json(path / "tokenizer_config.json") or {}
    eos = settings.get("eos_token")
    text = eos.get("content") if isinstance(eos, dict) else eos
    added = Fields(settings, "tokenizer_config.json").section("added_tokens_decoder")
    return [
        int(number)
        for number, token in (added.values if added else {}).items()
        if isinstance(token, dict) and token.get("content") == text and number.isdecimal()
    ]


def _as_float32(weight: FloatWeight) -> np.ndarray:
    if weight.format == "bf16":
        return (weight.data.astype(np.uint32) << 16).view(np.float32)
    return weight.data.astype(np.float32)
