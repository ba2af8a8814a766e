"""Which models are kept packed, and that an engine answers the same from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker import LLM, EngineConfig, SamplingParams
from stoker.runner import factory
from tests.support.checkpoints import write_gguf

GREEDY = SamplingParams(max_tokens=6, temperature=0.0)


def answer(model: Path, cache: Path | str) -> list[int]:
    llm = LLM(str(model), config=EngineConfig(packed_cache=str(cache), num_pages=64))
    return list(llm.generate([[5, 6, 7, 8]], GREEDY, progress=False)[0].choices[0].token_ids)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_gguf(tmp_path / "model.gguf", quant="Q4_1")
    return tmp_path / "model.gguf"


def test_a_small_model_is_not_worth_a_file(model: Path, tmp_path: Path) -> None:
    answer(model, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_large_one_answers_the_same_from_its_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "MIN_CACHED_BYTES", 0)
    monkeypatch.chdir(tmp_path)
    wanted = answer(model, "off")
    assert not (tmp_path / "off").exists()
    assert answer(model, tmp_path / "cache") == wanted
    assert answer(model, tmp_path / "cache") == wanted
