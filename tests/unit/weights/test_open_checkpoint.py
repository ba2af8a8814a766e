"""Which reader a model name leads to, and the Hub's cache."""

import subprocess
import sys
from pathlib import Path

import pytest

from stoker.core.errors import CheckpointError
from stoker.weights import hub as hub_module
from stoker.weights.checkpoint import open_checkpoint
from stoker.weights.hub import hub_folder
from tests.support.checkpoints import make_tiny

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A Hub cache with one snapshot, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    repo = tmp_path / "hub" / "models--someone--tiny"
    make_tiny("llama", repo / "snapshots" / COMMIT)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    return tmp_path / "hub"


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_cached_snapshot_needs_no_network(cache, revision):
    folder = hub_folder("someone/tiny", revision, cache)
    assert folder == cache / "models--someone--tiny" / "snapshots" / COMMIT


def test_id_is_the_name(cache, monkeypatch):
    monkeypatch.setattr(
        hub_module, "hub_folder", lambda model, revision: hub_folder(model, revision, cache)
    )
    assert open_checkpoint("someone/tiny").name == "someone/tiny"


@pytest.mark.parametrize(("model", "revision"), [("someone/else", None), ("someone/tiny", "v2")])
def test_what_is_not_cached_cannot_be_fetched_offline(cache, model, revision):
    with pytest.raises(CheckpointError, match=f"model {model} is not in the local cache") as caught:
        hub_folder(model, revision, cache)
    assert "\n" not in str(caught.value)


def test_a_partial_snapshot_is_not_taken_for_whole(cache):
    (cache / "models--someone--tiny" / "snapshots" / COMMIT / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="someone/tiny"):
        hub_folder("someone/tiny", None, cache)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("./nowhere", "no such file or folder"),
        ("/nowhere/model.gguf", "no such file or folder"),
        ("nowhere.gguf", "no such file or folder"),
        ("a/b/c", "no such file or folder"),
        ("bad name!/x", "no file, no folder and no Hugging Face id"),
    ],
)
def test_names_that_lead_nowhere(model, message):
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(model)


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="neither a model folder nor"):
        open_checkpoint(str(tmp_path / "model.bin"))


def test_no_torch_is_imported():
    root = Path(__file__).parents[3]
    code = (
        "import sys, stoker.weights.checkpoint as c; c.open_checkpoint('');"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root / "src", check=False)
    assert done.returncode == 0
