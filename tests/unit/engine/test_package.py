"""`import stoker` is light; its names come when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stoker
from stoker.core.request import SamplingParams
from tests.support.engine import ROOT


def test_names_load_on_first_use() -> None:
    assert stoker.SamplingParams is SamplingParams
    for name in stoker.__all__:
        assert getattr(stoker, name) is not None
        assert name in dir(stoker)
    with pytest.raises(AttributeError, match="nothing"):
        _ = stoker.nothing


def test_import_brings_no_framework() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import stoker; "
        "stoker.SamplingParams; import stoker.engine.client; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
