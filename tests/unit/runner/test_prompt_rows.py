from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from stoker.core.config import Limits
from stoker.core.model import kv_layout
from stoker.core.plan import PoolSpec, ScoreSpec, SeqStep, StepPlan
from stoker.core.request import TokenLogprobs
from stoker.kernels.reference import ReferenceOps
from stoker.models.model import Model
from stoker.models.registry import build_model
from stoker.runner.runner import ModelRunner
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from tests.support.checkpoints import make_tiny

OPS = ReferenceOps()
TOKENS = [5, 6, 7, 5, 9, 9, 11]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    path: Path = tmp_path_factory.mktemp("llama")
    make_tiny("llama", path)
    return open_checkpoint(str(path))


@pytest.fixture(scope="module")
def model(checkpoint: Checkpoint) -> Model:
    return build_model(checkpoint.config, checkpoint, OPS, lambda done, total: None)


@pytest.fixture
def runner(model: Model, checkpoint: Checkpoint) -> ModelRunner:
    limits = Limits(
        kv=kv_layout(checkpoint.config, "f32"),
        num_pages=8,
        max_model_len=256,
        max_num_seqs=4,
        max_num_batched_tokens=64,
        threads=1,
        vocab_size=checkpoint.config.vocab_size,
    )
    return ModelRunner(model, OPS, limits)


def score(targets: list[int], first: int = 0) -> SeqStep:
    return SeqStep("a", TOKENS, 0, ([0],), None, score=ScoreSpec(first, targets, 3))


def values(entries: Sequence[TokenLogprobs]) -> list[float]:
    """For comparing: this kernel set's bits may depend on the number of rows."""
    return [number for e in entries for number in (e.token_id, e.logprob, e.rank, *e.top_logprobs)]


def hidden(runner: ModelRunner, model: Model) -> torch.Tensor:
    """Of TOKENS, after the last norm."""
    rows = np.arange(len(TOKENS), dtype=np.int32)
    states: torch.Tensor = model.norm(runner._forward.hidden(rows))
    return states


@pytest.mark.parametrize("slice_rows", [1, 4, 100])
def test_scores_are_the_models_own_log_probabilities(
    runner: ModelRunner, model: Model, slice_rows: int
) -> None:
    runner._reader._slice = slice_rows
    other = SeqStep("other", [1, 2, 3], 0, ([1],), None)
    _, result = runner.execute(StepPlan(1, (other, score(TOKENS[1:])))).seqs
    states = model.norm(runner._forward.hidden(np.arange(3, 3 + len(TOKENS), dtype=np.int32)))
    expected = torch.log_softmax(model.head(states), -1)
    assert [entry.token_id for entry in result.prompt_logprobs] == TOKENS[1:]
    for row, entry in zip(expected[:-1], result.prompt_logprobs, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=1e-5)
        top = torch.topk(row, 3)
        assert list(entry.top_ids) == top.indices.tolist()
        assert entry.top_logprobs == pytest.approx(top.values.tolist(), abs=1e-5)
        assert entry.rank == 1 + int((row > row[entry.token_id]).sum())


def test_only_the_rows_that_are_asked_for_are_scored(runner: ModelRunner) -> None:
    whole = runner.execute(StepPlan(1, (score(TOKENS[1:]),))).seqs[0].prompt_logprobs
    part = runner.execute(StepPlan(2, (score(TOKENS[3:5], first=2),))).seqs[0].prompt_logprobs
    assert values(part) == pytest.approx(values(whole[2:4]), abs=1e-5)


def test_the_last_state_and_the_mean(runner: ModelRunner, model: Model) -> None:
    def pooled(spec: PoolSpec) -> bytes:
        step = SeqStep("a", TOKENS, 0, ([0],), None, pool=spec)
        return runner.execute(StepPlan(1, (step,))).seqs[0].pooled

    last = np.frombuffer(pooled(PoolSpec("last", 0, b"", 7)), "<f4")
    mean = np.frombuffer(pooled(PoolSpec("mean", 0, b"", 7)), "<f4")
    states = hidden(runner, model).numpy()
    assert np.array_equal(last, states[-1])
    assert mean == pytest.approx(states.mean(axis=0, dtype=np.float64), abs=1e-6)
    # A sum from before goes on, and rows that it holds already are left out.
    partial = pooled(PoolSpec("mean", 0, b"", None))
    assert np.frombuffer(partial, "<f8") == pytest.approx(7 * mean, abs=1e-5)
    assert np.array_equal(np.frombuffer(pooled(PoolSpec("mean", 7, partial, 7)), "<f4"), mean)


def test_numbers_that_are_not_finite_fail_their_sequence_alone(runner: ModelRunner) -> None:
    good = SeqStep("good", TOKENS, 0, ([0],), None, score=ScoreSpec(0, TOKENS[1:], 0))
    want = runner.execute(StepPlan(1, (good,))).seqs[0]
    for kv in runner.kv.layers:
        kv.v[1].fill_(math.nan)
    for ask in ({"score": ScoreSpec(0, [3], 0)}, {"pool": PoolSpec("last", 0, b"", 4)}):
        bad = SeqStep("bad", [7], 3, ([1],), None, **ask)  # type: ignore[arg-type]
        failed, still_good = runner.execute(StepPlan(2, (bad, good))).seqs
        assert failed.error is not None and "not finite" in failed.error
        assert still_good.error is None
        assert values(still_good.prompt_logprobs) == pytest.approx(
            values(want.prompt_logprobs), abs=1e-5
        )
