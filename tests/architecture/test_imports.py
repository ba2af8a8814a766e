"""What a process loads: the API side of the house starts without PyTorch.

The layer contract itself is checked by import-linter (`make check`, pyproject.toml).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

TORCH_FREE = [
    "stoker",
    "stoker.core.config",
    "stoker.memory.manager",
    "stoker.weights.checkpoint",
    "stoker.sched.scheduler",
    "stoker.text.tokenizer",
    "stoker.engine.client",
    "stoker.api.app",
    "stoker.cli.main",
]


@pytest.mark.parametrize("module", TORCH_FREE)
def test_module_loads_without_torch(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "sys.exit(' '.join(m for m in ('torch', 'transformers') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_core_imports_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules);"
        "import stoker.core.config, stoker.core.plan, stoker.core.request, stoker.core.validate;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before} - {'stoker'};"
        "sys.exit(' '.join(sorted(m for m in new if m not in sys.stdlib_module_names)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, f"core imports {done.stderr}"
