from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from stoker.core.config import Limits
from stoker.core.model import kv_layout
from stoker.core.plan import SampleSpec, SeqStep, StepPlan
from stoker.core.request import SamplingParams
from stoker.kernels.reference import ReferenceOps
from stoker.models.model import Model
from stoker.models.registry import build_model
from stoker.runner.runner import ModelRunner
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from tests.support.checkpoints import make_tiny

GREEDY = SamplingParams(temperature=0.0, logprobs=3)
OPS = ReferenceOps()


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
        num_pages=16,
        max_model_len=256,
        max_num_seqs=4,
        max_num_batched_tokens=64,
        threads=1,
        vocab_size=checkpoint.config.vocab_size,
    )
    return ModelRunner(model, OPS, limits)


def _seq(name: str, tokens: list[int], page: int, *, draws: bool = True, start: int = 0) -> SeqStep:
    history = [0] * start + tokens
    spec = SampleSpec(GREEDY, 0, history, len(history))
    return SeqStep(name, tokens, start, ([page],), spec if draws else None)


def test_results_come_in_the_plans_order_and_only_where_asked(runner: ModelRunner) -> None:
    plan = StepPlan(
        9,
        (
            _seq("a", [5, 6, 7], 0, draws=False),
            _seq("b", [8, 9], 1),
            _seq("c", [4], 2),
        ),
    )
    result = runner.execute(plan)
    assert result.step_id == 9
    assert [seq.request_id for seq in result.seqs] == ["a", "b", "c"]
    assert [len(seq.token_ids) for seq in result.seqs] == [0, 1, 1]


def test_a_plan_without_sequences_is_no_work(runner: ModelRunner) -> None:
    assert runner.execute(StepPlan(1, ())).seqs == ()


def test_a_step_is_a_function_of_plan_and_pages(runner: ModelRunner) -> None:
    plan = StepPlan(1, (_seq("a", [5, 6, 7], 3),))
    first = runner.execute(plan).seqs
    runner.execute(StepPlan(2, (_seq("other", [1, 2, 3, 4], 4),)))
    assert runner.execute(plan).seqs == first


def test_poisoned_pages_fail_their_sequence_alone(runner: ModelRunner) -> None:
    good = StepPlan(1, (_seq("good", [5, 6], 0),))
    want = runner.execute(good).seqs[0]
    for kv in runner.kv.layers:
        kv.v[1].fill_(math.nan)
    plan = StepPlan(2, (_seq("bad", [7], 1, start=3), _seq("good", [5, 6], 0)))
    bad, still_good = runner.execute(plan).seqs
    assert bad.error is not None and bad.token_ids == ()
    assert still_good.token_ids == want.token_ids and still_good.error is None


def test_only_drawing_rows_get_logits(
    model: Model, runner: ModelRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []
    whole = type(model).logits

    def spy(self: Model, hidden: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(hidden.shape))
        return whole(self, hidden)

    monkeypatch.setattr(Model, "logits", spy)
    runner.execute(StepPlan(1, (_seq("a", [1, 2, 3], 0, draws=False),)))
    assert shapes == []
    runner.execute(StepPlan(2, (_seq("a", [1, 2, 3], 0), _seq("b", [1, 2], 1, draws=False))))
    assert shapes == [(1, 64)]
