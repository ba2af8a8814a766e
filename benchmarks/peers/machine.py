"""What was measured on: the CPU, who else was on it, and what a token reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gguf import GGUFReader


def facts() -> dict[str, Any]:
    """CPU name, logical CPUs and the load average of the last minute."""
    name = ""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    return {"cpu": name, "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def bytes_per_token(file: Path) -> int:
    """Bytes of a GGUF file's weights that decoding a token reads: all, but a separate embedding."""
    tensors = {tensor.name: int(tensor.n_bytes) for tensor in GGUFReader(file).tensors}
    total = sum(tensors.values())
    return total - tensors["token_embd.weight"] if "output.weight" in tensors else total
