"""Models by Hugging Face id: the local cache first, then a download through `huggingface_hub`."""

from __future__ import annotations

from pathlib import Path

from stoker.core.errors import CheckpointError
from stoker.weights.hf_folder import read_json, weight_files

PATTERNS = ("*.safetensors", "*.json", "*.jinja", "tokenizer.model")
IGNORED = ("original/*", "consolidated*", "onnx/*")


def hub_folder(model: str, revision: str | None = None, cache_dir: Path | None = None) -> Path:
    """The folder of a snapshot with everything a checkpoint needs.

    model: "owner/name". cache_dir: where to keep snapshots; None means the Hub's usual place.
    CheckpointError if it is neither cached nor reachable.
    """
    cached = _snapshot(model, revision, cache_dir, local=True)
    if cached is not None and _complete(cached):
        return cached
    folder = _snapshot(model, revision, cache_dir, local=False)
    if folder is None or not _complete(folder):
        raise CheckpointError(f"model {model}: the download is incomplete")
    return folder


def _snapshot(model: str, revision: str | None, cache_dir: Path | None, local: bool) -> Path | None:
    # Here, because importing the Hub's client takes longer than opening a local file.
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(
            snapshot_download(
                model,
                revision=revision,
                cache_dir=cache_dir,
                allow_patterns=list(PATTERNS),
                ignore_patterns=list(IGNORED),
                local_files_only=local,
            )
        )
    except errors.HFValidationError as error:
        raise CheckpointError(f"{model!r} is no file, no folder and no Hugging Face id") from error
    except errors.GatedRepoError as error:
        raise CheckpointError(
            f"model {model} asks for a licence to be accepted; log in with `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise CheckpointError(f"model {model} is not on the Hugging Face Hub") from error
    except errors.RevisionNotFoundError as error:
        raise CheckpointError(f"model {model} has no revision {revision!r}") from error
    except (OSError, errors.HfHubHTTPError, errors.LocalEntryNotFoundError) as error:
        if local:
            return None
        raise CheckpointError(
            f"model {model} is not in the local cache and cannot be fetched: {_first_line(error)}"
        ) from error


def _complete(folder: Path) -> bool:
    """Whether the snapshot has its config and every weight file: a cache may hold a part."""
    try:
        return read_json(folder / "config.json") is not None and bool(weight_files(folder))
    except CheckpointError:
        return False


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
