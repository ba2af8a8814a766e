"""What a process loads: neither the API process nor an engine on native kernels has PyTorch.

The layer contract itself is checked by import-linter (`make check`, pyproject.toml).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkpoints import write_gguf

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
    "stoker.engine.process",
]


@pytest.mark.parametrize("module", TORCH_FREE)
def test_module_loads_without_torch(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "sys.exit(' '.join(m for m in ('torch', 'transformers') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SERVE = """
import sys
from stoker import LLM, SamplingParams
llm = LLM(sys.argv[1], threads=1)
penalties = SamplingParams(max_tokens=4, repetition_penalty=1.2, presence_penalty=0.1, logprobs=2)
greedy = SamplingParams(max_tokens=4, temperature=0.0)
llm.generate([[5, 6, 7]] * 2, [penalties, greedy], progress=False)
sys.exit("torch" in sys.modules)
"""


def test_an_engine_on_native_kernels_answers_without_torch(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", quant="Q4_1")
    done = subprocess.run(
        [sys.executable, "-c", SERVE, tmp_path / "tiny.gguf"], capture_output=True, text=True
    )
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
