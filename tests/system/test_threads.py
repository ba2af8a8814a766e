"""The engine process's threads: those it was told to have, and what holds it to its parent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from stoker.core.config import EngineConfig
from stoker.core.request import SamplingParams
from stoker.engine.client import EngineClient
from stoker.text.tokenizer import load_tokenizer
from stoker.weights.checkpoint import open_checkpoint
from tests.support.checkpoints import make_tiny
from tests.support.processes import PRODUCT_ENGINE, text_of

T = TypeVar("T")
PARAMS = SamplingParams(max_tokens=20, temperature=0.8, top_p=0.9, logprobs=1, ignore_eos=True)
OTHER_THREADS = 3
"""Two of ZeroMQ and the one that watches the parent; all asleep while the engine works."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")


def watch(config: EngineConfig, look: Callable[[int], T]) -> T:
    """What `look` sees in an engine process that has answered a request."""

    async def scenario() -> T:
        tokenizer = load_tokenizer(open_checkpoint(config.model).tokenizer)
        client = EngineClient(config, tokenizer, command=PRODUCT_ENGINE)
        await client.start()
        try:
            await text_of(client, b"abc", PARAMS)
            assert client.engine_pid is not None
            return look(client.engine_pid)
        finally:
            await client.close()

    return asyncio.run(scenario())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny("llama", folder)
    return str(folder)


@pytest.mark.parametrize("threads", [1, 3])
def test_libraries_bring_no_threads_of_their_own(threads: int, model: str) -> None:
    # NumPy's BLAS alone would start one for each further CPU.
    config = EngineConfig(model=model, num_pages=400, threads=threads)
    found = watch(config, lambda pid: psutil.Process(pid).num_threads())
    assert found == threads + OTHER_THREADS


def test_pinned_threads_have_a_core_each_and_the_others_stay_free(model: str) -> None:
    config = EngineConfig(model=model, num_pages=400, threads=1, pin_threads=True)

    def look(pid: int) -> tuple[set[int], list[set[int]]]:
        tids = (int(tid) for tid in os.listdir(f"/proc/{pid}/task"))
        masks = {tid: os.sched_getaffinity(tid) for tid in tids}
        return masks.pop(pid), list(masks.values())

    mine = os.sched_getaffinity(0)
    caller, others = watch(config, look)
    assert len(caller) == 1 and caller <= mine
    assert others == [mine] * OTHER_THREADS
    assert os.sched_getaffinity(0) == mine
