"""Where peers and their models are kept between runs: outside the repository."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """`$XDG_CACHE_HOME/stoker/peers/<name>`, made if absent."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "stoker" / "peers" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
